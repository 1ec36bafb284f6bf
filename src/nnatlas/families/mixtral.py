"""Mixtral: Llama blocks with a mixture of experts for an MLP, two of eight chosen for every token."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
