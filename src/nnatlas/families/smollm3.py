"""SmolLM 3: Llama blocks, every fourth of which applies no rotary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    },
)
