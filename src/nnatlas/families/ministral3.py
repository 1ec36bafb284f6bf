"""Ministral 3: Mistral blocks whose queries grow with the logarithm of their position."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
