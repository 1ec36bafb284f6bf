"""Cosmos 3 Edge: an MLP without a gate, whose activation is the square of a ReLU, behind an image tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    up_proj="fc1",
    down_proj="fc2",
)
