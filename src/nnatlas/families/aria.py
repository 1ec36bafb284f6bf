"""Aria: a mixture of small experts with shared ones, whose router weighs only the chosen scores; with or without a tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="aria aria_text",
)
