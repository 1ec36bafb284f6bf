"""Mistral, Ministral and Mistral 3: Llama blocks; some attend within a sliding window, some behind an image tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="mistral mistral3 ministral idefics2",
)
