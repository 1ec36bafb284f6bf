"""Apertus: Llama blocks with norms named for what they feed, query and key norms, and an MLP of one learned activation."""

from nnatlas.families._shapes import HEADS_FIRST, LLAMA

FAMILY = LLAMA.but(
    covers="apertus apertus1p5_text",
    **HEADS_FIRST,
    attention_norm="attention_layernorm",
    mlp_norm="feedforward_layernorm",
)
