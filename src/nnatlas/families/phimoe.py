"""Phi-3.5-MoE: LayerNorms with biases, and two of sixteen experts chosen one after the other by SparseMixer."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
