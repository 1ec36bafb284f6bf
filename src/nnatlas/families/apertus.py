"""Apertus: Llama's block with norms named for what they feed, query and key norms, and an MLP of one learned activation."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(attention_norm="attention_layernorm", mlp_norm="feedforward_layernorm")
