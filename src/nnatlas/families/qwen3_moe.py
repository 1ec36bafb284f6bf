"""Qwen 3 with a mixture of experts, alone or behind an image tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="qwen3_moe qwen3_vl_moe",
)
