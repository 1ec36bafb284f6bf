"""dots.llm1: Qwen 3 attention with a DeepSeek 3 mixture of experts, after one dense block."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    },
)
