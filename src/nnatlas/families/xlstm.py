"""xLSTM: matrix memories with exponential input gates in every block, a gated MLP after each, capped logits."""

from nnatlas.families._mixers import CARRIED, IN_PLACE, MASKLESS, NO_ATTENTION_AT_ALL, NO_STEPS
from nnatlas.families._shapes import LLAMA, absent

_CELL = "linear_attn.mlstm_backend"
_HEADS = "batch num_heads seq"
_STATE = "batch num_heads key_head_dim value_head_dim"

FAMILY = LLAMA.but(
    base="backbone",
    layers="base.blocks",
    embed_tokens="base.embeddings",
    norm="base.out_norm",
    self_attn=absent(NO_ATTENTION_AT_ALL),
    attention_norm="norm_mlstm",
    mlp="ffn",
    mlp_norm="norm_ffn",
    up_proj=("proj_up", absent("gate and up projection are one")),
    down_proj="proj_down",
    readout="norm | lm_head | cap output_logit_soft_cap",
    linear_attn=dict(
        path="mlstm_layer",
        attention_queries=f"{_CELL} > in.query as {_HEADS} key_head_dim",
        attention_keys=f"{_CELL} > in.key as {_HEADS} key_head_dim",
        attention_values=f"{_CELL} > in.value as {_HEADS} value_head_dim",
        conv_output=absent("queries, keys and values pass through no convolution"),
        time_steps=absent(NO_STEPS),
        decays=f"{_CELL} > in.fgate through sigmoid as {_HEADS}",
        betas=f"{_CELL} > in.igate through exp as {_HEADS}",
        state_input=f"unscaled_memory({_CELL} > in.c_initial copied, {_CELL} > in.m_initial copied) as {_STATE}",
        state_output=f"unscaled_memory({_CELL} > out[1]) as {_STATE}",
        states="memory_states(state_input, attention_keys, attention_values, decays, betas)"
        " as batch seq num_heads key_head_dim value_head_dim",
        attention_head_outputs=f"{_CELL} > out[0] as {_HEADS} value_head_dim",
        attention_gate="linear_attn.ogate_act_fn > out as batch seq channels",
        attention_premix="linear_attn.out_proj > in as batch seq channels",
        attention_output="linear_attn > out",
    ),
    breaks=CARRIED | MASKLESS | IN_PLACE,
    notes={
        "linear_attn.attention_queries": "heads before positions, as the memory cell takes them",
        "linear_attn.decays": "the forget gate after its sigmoid",
        "linear_attn.betas": "the input gate after its exponential: it may be of any size",
        "linear_attn.state_input": "the matrix memory, without the running maximum the model divides it by",
        "linear_attn.state_output": "the matrix memory, without the running maximum the model divides it by",
        "linear_attn.attention_head_outputs": "what is read from the memory over a normalizer that decays alongside",
        "linear_attn.attention_gate": "the output gate after its sigmoid",
    },
    tiny={
        "num_heads": 4,
        "hidden_size": 128,
        "embedding_dim": 128,
        "qk_dim_factor": 0.5,
        "chunk_size": 4,
        "max_inference_chunksize": 64,
    },
)
