"""OLMo: Llama blocks with norms that have no weight; queries, keys and values are cut off at a bound."""

from nnatlas.families._shapes import AS_CALLED, LLAMA

FAMILY = LLAMA.but(
    **AS_CALLED,
)
