"""Llama: pre-norm blocks, rotary attention with shared key/value heads, a gated MLP; the block most families start from."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
