"""MiniMax M2: a mixture of experts chosen by sigmoid scores; queries and keys normed across all heads at once."""

from nnatlas.families._shapes import ALL_HEADS, LLAMA

FAMILY = LLAMA.but(
    **ALL_HEADS,
)
