"""Qwen 1.5 and 2 with a mixture of experts: one shared expert stands beside it, behind a gate of its own."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    kinds=(kind("sparse", "has mlp.experts", shared_expert_output="beyond(routed_output, mlp_output)"),),
    tiny={
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    },
)
