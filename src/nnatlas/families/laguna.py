"""Laguna: Qwen 3 attention with a softplus gate on every head, head counts that differ by block, and scaled experts with shared ones."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    attention_gate="self_attn ~ softplus[0] > out as batch seq num_heads",
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            routed_output="experts > out : (batch seq) hidden_size * mlp.routed_scaling_factor",
        ),
    ),
    tiny={
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "num_attention_heads_per_layer": [4, 8, 4, 8],
        "sliding_window": 8,
    },
)
