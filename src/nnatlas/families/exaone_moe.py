"""K-EXAONE: query and key heads normed, rotary on the sliding blocks only, a mixture of experts with a shared one after one dense block."""

from nnatlas.families._shapes import HEADS_FIRST, LLAMA

FAMILY = LLAMA.but(
    **HEADS_FIRST,
)
