"""Phi: attention and MLP in parallel on one LayerNorm, a partial rotary, biases everywhere."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM, absent

FAMILY = PARALLEL_ONE_NORM.but(
    norm="base.final_layernorm",
    o_proj="dense",
    q_norm=("q_layernorm", absent("no query norm")),
    k_norm=("k_layernorm", absent("no key norm")),
    down_proj="fc2",
    up_proj="fc1",
    act_fn="activation_fn",
    unrotated_queries=(
        "q_norm > out : batch num_heads seq qk_head_dim",
        "q_proj > out : batch seq (num_heads qk_head_dim)",
    ),
    unrotated_keys=(
        "k_norm > out : batch num_kv_heads seq qk_head_dim",
        "k_proj > out : batch seq (num_kv_heads qk_head_dim)",
    ),
)
