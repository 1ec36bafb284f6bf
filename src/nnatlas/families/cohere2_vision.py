"""Command A Vision and Aya Vision: a Cohere 2 behind an image tower; the logits are not scaled."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    covers="cohere2_vision aya_vision",
)
