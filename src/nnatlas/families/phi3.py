"""Phi-3 and Phi-4: Llama blocks with fused queries, keys and values, fused gate and up projections, and a long rotary."""

from nnatlas.families._shapes import LLAMA

_FUSED = (
    "self_attn.qkv_proj > out : batch seq (num_heads qk_head_dim | num_kv_heads qk_head_dim | num_kv_heads head_dim)"
)

FAMILY = LLAMA.but(
    covers="phi3 phi4_multimodal",
    passes="base.embed_tokens_extend",
    unrotated_queries=f"{_FUSED} -> 0",
    unrotated_keys=f"{_FUSED} -> 1",
)
