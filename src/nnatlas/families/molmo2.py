"""Molmo 2: fused queries, keys and values, fused gate and up projections; norms before or, where the config says so, after each sublayer."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
