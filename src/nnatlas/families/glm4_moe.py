"""GLM 4.5 and Sarvam: a DeepSeek 3 mixture of experts on attention with a partial rotary and, in some sizes, normed heads."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="glm4_moe sarvam_moe solar_open",
)
