"""MiniMax-01: lightning attention with a fixed decay a head in most blocks; each sublayer adds to the norm of the stream."""

from nnatlas.families._mixers import CARRIED, NO_ATTENTION, NO_STEPS
from nnatlas.families._shapes import LLAMA, absent, kind

_QKV = "linear_attn calls apply_mask_to_padding_states > out : batch seq (num_heads 3 key_head_dim)"
_HEADS = "batch seq num_heads key_head_dim"
_JOINED, _VALUES = "batch seq (num_heads value_head_dim)", "batch seq num_heads value_head_dim"
_STATE = "batch num_heads key_head_dim value_head_dim"

FAMILY = LLAMA.but(
    identity="mlp_norm_output * block.mlp_alpha_factor + mlp_output = layer_output",
    mlp_input="mlp > in copied",
    attention_output="self_attn > out[0] * block.attn_beta_factor",
    mlp_output="mlp > out * block.mlp_beta_factor",
    kinds=(
        kind(
            "recurrent",
            "has self_attn.qkv_proj",
            self_attn=absent(NO_ATTENTION),
            linear_attn=dict(
                path="self_attn",
                attention_queries=f"{_QKV} -> 0 as {_HEADS}",
                attention_keys=f"{_QKV} -> 1 as {_HEADS}",
                attention_values=f"{_QKV} -> 2 as {_HEADS}",
                conv_output=absent("queries, keys and values pass through no convolution"),
                time_steps=absent(NO_STEPS),
                decays="steady_decays(attention_values) as batch seq num_heads",
                betas=absent("every token is written with its full weight"),
                state_input=f"linear_cache(linear_attn > in.cache) as {_STATE}",
                state_output=f"linear_attn > out[1] as {_STATE} shared",
                states="outer_states(state_input, attention_keys, attention_values, decays)"
                " as batch seq num_heads key_head_dim value_head_dim",
                attention_head_outputs=f"linear_attn.norm > in : {_JOINED} as {_VALUES}",
                attention_gate=f"linear_attn.output_gate > out : {_JOINED} as {_VALUES}",
                attention_premix=f"linear_attn.out_proj > in : {_JOINED} as {_VALUES}",
                attention_output="linear_attn > out[0] * block.attn_beta_factor",
            ),
        ),
    ),
    breaks=CARRIED,
    notes={
        "linear_attn.attention_queries": "after the SiLU on queries, keys and values, padding zeroed",
        "linear_attn.attention_keys": "after the SiLU, padding zeroed",
        "linear_attn.attention_values": "after the SiLU, padding zeroed",
        "linear_attn.decays": "fixed by head and block, the same at every token",
        "linear_attn.attention_gate": "before its sigmoid; the normed head outputs are multiplied by it",
        "layer_mid": "the normed input times attn_alpha_factor, and the attention's part",
    },
)
