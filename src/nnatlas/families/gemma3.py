"""Gemma 3 behind an image tower, and ShieldGemma 2: as Gemma 3, with logits that are never capped."""

from nnatlas.families._shapes import HEADS_FIRST, SANDWICH

FAMILY = SANDWICH.but(
    covers="gemma3 shieldgemma2",
    **HEADS_FIRST,
)
