"""Arcee, Jais 2 and Nemotron: an MLP without a gate, whose activation is the square of a ReLU."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="arcee jais2 nemotron",
)
