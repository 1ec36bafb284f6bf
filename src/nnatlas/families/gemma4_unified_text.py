"""Gemma 4 Unified, the language model alone."""

from nnatlas.families._shapes import GEMMA4, SANDWICH

FAMILY = SANDWICH.but(
    **GEMMA4,
    tiny={"head_dim": 8, "per_layer_config": {"3": {"head_dim": 16}}},
)
