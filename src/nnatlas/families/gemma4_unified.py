"""Gemma 4 Unified: Gemma 4 over image and audio tokens, without towers of its own and without an input per layer."""

from nnatlas.families._shapes import GEMMA4, SANDWICH

FAMILY = SANDWICH.but(
    **GEMMA4,
    tiny={"text_config.head_dim": 8, "text_config.per_layer_config": {"3": {"head_dim": 16}}},
)
