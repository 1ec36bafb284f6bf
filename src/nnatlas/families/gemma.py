"""Gemma: Llama blocks whose norms weigh by 1 + w, a GELU in the gate, and embeddings times the root of their width."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
