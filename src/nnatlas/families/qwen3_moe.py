"""Qwen 3 with a mixture of experts, alone or behind towers."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="qwen3_moe qwen3_vl_moe qwen3_omni_moe_thinker",
)
