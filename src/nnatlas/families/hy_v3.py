"""Hy 3: query and key heads normed before the rotary, and a mixture of experts chosen by sigmoid scores, with one shared."""

from nnatlas.families._shapes import HEADS_FIRST, LLAMA

FAMILY = LLAMA.but(
    **HEADS_FIRST,
)
