"""Qwen 2 and 2.5: Llama blocks with biases on the query, key and value projections."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "use_sliding_window": True,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    },
)
