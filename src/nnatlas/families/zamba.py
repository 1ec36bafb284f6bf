"""Zamba: Mamba mixers with heads; in some blocks a shared transformer first adds to what the mixer reads, not to the stream."""

from nnatlas.families._mixers import BESIDE, MAMBA

_BATCH = "num_heads batch"
_HEADS = "batch seq num_heads value_head_dim"
_STATE = "batch num_heads value_head_dim state_size"
_SELECTION = f"linear_attn ~ matmul[0] > out : {_BATCH} (time_step_rank | state_size | state_size) seq"
_MAMBA = MAMBA | dict(
    attention_queries=f"{_SELECTION} -> 2 as batch seq num_heads state_size",
    attention_keys=f"{_SELECTION} -> 1 as batch seq num_heads state_size",
    attention_values=f"linear_attn ~ matmul[0] > in[1] : {_BATCH} value_head_dim seq as {_HEADS} shared",
    time_steps=f"linear_attn ~ matmul[1] > out : {_BATCH} value_head_dim seq as {_HEADS}",
    decays="step_decays(betas) as batch seq num_heads value_head_dim state_size",
    betas=f"step_sizes(time_steps) as {_HEADS}",
    state_input=f"recurrent_state(linear_attn > in.cache) as {_STATE}",
    state_output=f"recurrent_state(linear_attn > after.cache) as {_STATE}",
    states="outer_states(state_input, attention_values, attention_keys, decays, betas)"
    " as batch seq num_heads value_head_dim state_size",
    attention_head_outputs=f"scanned(state_input, attention_values, attention_queries, attention_keys, betas) as {_HEADS}",
    attention_gate="linear_attn.in_proj > out : batch seq (channels 2) -> 1 as batch seq channels",
)

FAMILY = BESIDE.but(
    linear_attn={"path": "mamba", **_MAMBA},
    notes={
        "linear_attn.state_output": "a copy of what the cache keeps",
        "unrotated_queries": "no rotary is applied",
        "unrotated_keys": "no rotary is applied",
    },
    tiny={
        "layers_block_type": [
            "linear_attention",
            "linear_attention",
            "hybrid",
            "linear_attention",
            "hybrid",
            "linear_attention",
        ],
        "num_hidden_layers": 6,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "num_key_value_heads": 4,
        "n_mamba_heads": 2,
    },
)
