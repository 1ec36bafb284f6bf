"""Emu3: a Llama over text and image tokens in one vocabulary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="emu3 emu3_text_model",
    tiny={"vocabulary_map": {"<image>": 5, "<|extra_200|>": 6}},
)
