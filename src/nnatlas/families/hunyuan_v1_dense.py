"""Hunyuan: Llama blocks that norm queries and keys after the rotary instead of before."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    q_norm="query_layernorm",
    k_norm="key_layernorm",
    unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
    unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
    notes={
        "unrotated_queries": "before any norm: here the norm comes after the rotary",
        "unrotated_keys": "before any norm: here the norm comes after the rotary",
    },
    breaks={
        "chain unrotated_queries": "queries are normed after the rotary",
        "chain unrotated_keys": "keys are normed after the rotary",
    },
)
