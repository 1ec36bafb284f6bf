"""ERNIE 4.5: a Llama with a rotary that turns neighbouring pairs of dimensions."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
