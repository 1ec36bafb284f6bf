"""OLMoE: a mixture of 64 small experts; queries and keys are normed across all heads at once, then cut off at a bound."""

from nnatlas.families._shapes import AS_CALLED, LLAMA

FAMILY = LLAMA.but(
    **AS_CALLED,
)
