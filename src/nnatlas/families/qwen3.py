"""Qwen 3: Llama's block with every query and key head normed before the rotary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
