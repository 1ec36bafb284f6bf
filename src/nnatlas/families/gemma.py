"""Gemma: Llama blocks whose norms weigh by 1 + w, a GELU in the gate and embeddings times √hidden; PaliGemma puts an image tower in front."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="gemma paligemma",
)
