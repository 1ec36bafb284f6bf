"""Helium: Llama blocks with a rotary that turns neighbouring pairs of dimensions, and a key/value head for every query head."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"head_dim": 16},
)
