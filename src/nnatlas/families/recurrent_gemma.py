"""RecurrentGemma: gated linear recurrences (RG-LRU) in two blocks of three, local attention in the third."""

from nnatlas.families._mixers import CARRIED, NO_ATTENTION, NO_STEPS
from nnatlas.families._shapes import LLAMA, absent, kind

_SCAN = "linear_attn.rg_lru calls _rnn_scan"
_ONE = "the state has one number for each channel: nothing addresses it, and all of it is read"

FAMILY = LLAMA.but(
    norm="base.final_norm",
    self_attn="temporal_block",
    attention_norm="temporal_pre_norm",
    mlp="mlp_block",
    mlp_norm="channel_pre_norm",
    readout="norm | lm_head | cap logits_soft_cap",
    kinds=(
        kind(
            "recurrent",
            "has temporal_block.rg_lru",
            self_attn=absent(NO_ATTENTION),
            linear_attn=dict(
                path="temporal_block",
                attention_queries=absent(_ONE),
                attention_keys=absent(_ONE),
                attention_values=f"{_SCAN} > in.hidden_states as batch seq channels",
                conv_output="linear_attn.rg_lru > in as batch seq channels",
                time_steps=absent(NO_STEPS),
                decays=f"{_SCAN} > in.recurrent_gate as batch seq channels",
                betas="linear_attn.rg_lru ~ sigmoid[0] > out as batch seq channels",
                state_input=f"{_SCAN} > in.recurrent_states or zeros as batch channels",
                state_output=f"{_SCAN} > out[1] as batch channels",
                states=f"{_SCAN} > out[0] as batch seq channels",
                attention_head_outputs="linear_attn.rg_lru > out as batch seq channels",
                attention_gate="linear_attn.act_fn > out as batch seq channels",
                attention_premix="linear_attn.linear_out > in as batch seq channels",
                attention_output="linear_attn > out",
            ),
        ),
    ),
    breaks=CARRIED
    | {
        "batch padding": "the short convolution runs over the padding",
        "causal linear_attn.state_input": "a prompt's first position drops the state that it starts from",
    },
    notes={
        "linear_attn.attention_values": "what is added to the state: the gated input times sqrt(1 - decay^2)",
        "linear_attn.decays": "the recurrent gate; a prompt's first position keeps nothing, whatever stands here",
        "linear_attn.betas": "the input gate, a sigmoid",
        "linear_attn.state_input": "at a prompt's start what the last call left, which the first position drops",
        "linear_attn.state_output": "what the module keeps; an edit reaches the next cached step, not this call's logits",
        "linear_attn.states": "read where the scan returns them: it costs nothing here",
        "linear_attn.attention_gate": "the other branch after its GELU",
    },
)
