"""Mistral: Llama's block; earlier checkpoints attend within a sliding window."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
