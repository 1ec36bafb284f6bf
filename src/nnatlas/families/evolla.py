"""Evolla: a Llama with adapters at the end of some blocks, which read a protein where one is given."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
