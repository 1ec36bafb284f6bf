"""Emu3: a Llama over text and image tokens in one vocabulary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"vocabulary_map": {"<image>": 5, "<|extra_200|>": 6}},
)
