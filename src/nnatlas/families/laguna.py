"""Laguna: Qwen 3 attention with a softplus gate on its heads, head counts that differ by block, and scaled experts."""

from nnatlas.families._shapes import LLAMA, SCALED_EXPERTS, kind

FAMILY = LLAMA.but(
    attention_gate="self_attn ~ softplus[0] > out as batch seq num_heads",
    kinds=(
        SCALED_EXPERTS,
        kind(
            "gated by dimension",
            "not block.self_attn.gate_per_head",
            attention_gate="self_attn ~ softplus[0] > out : batch seq (num_heads head_dim) as batch seq num_heads head_dim",
        ),
    ),
    tiny={
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "num_attention_heads_per_layer": [4, 8, 4, 8],
        "sliding_window": 8,
    },
)
