"""DeepSeek-OCR 2 and Unlimited-OCR: a DeepSeek 2 mixture with shared experts but plain attention, behind an image tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "text_config.head_dim": 16},
)
