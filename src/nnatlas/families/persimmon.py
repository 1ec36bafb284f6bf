"""Persimmon and Fuyu: an MLP of a squared ReLU, fused queries, keys and values, each head normed; Fuyu feeds it image patches."""

from nnatlas.families._shapes import LLAMA

_FUSED = "self_attn.query_key_value > out : batch seq (num_heads 3 qk_head_dim)"
_FUSED_KV = "self_attn.query_key_value > out : batch seq (num_kv_heads 3 qk_head_dim)"

FAMILY = LLAMA.but(
    covers="persimmon fuyu",
    norm="base.final_layernorm",
    o_proj="dense",
    up_proj="dense_h_to_4h",
    down_proj="dense_4h_to_h",
    unrotated_queries=("q_norm > out : batch seq num_heads qk_head_dim", f"{_FUSED} -> 0"),
    unrotated_keys=("k_norm > out : batch seq num_kv_heads qk_head_dim", f"{_FUSED_KV} -> 1"),
)
