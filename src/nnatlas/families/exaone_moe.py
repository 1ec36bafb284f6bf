"""K-EXAONE: query and key heads normed, a rotary on the sliding blocks only, and a mixture with a shared expert."""

from nnatlas.families._shapes import HEADS_FIRST, LLAMA

FAMILY = LLAMA.but(
    **HEADS_FIRST,
)
