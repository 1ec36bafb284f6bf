"""Unlimited-OCR: a DeepSeek 2 mixture with shared experts but plain attention, behind an image tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"text_config.num_key_value_heads": 4, "text_config.head_dim": 16},
)
