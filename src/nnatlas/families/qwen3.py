"""Qwen 3: Llama blocks with every query and key head normed before the rotary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    },
)
