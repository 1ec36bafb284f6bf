"""Kolibri 1: sandwich norms, query and key heads normed, and experts chosen by sigmoid scores with a shared one."""

from nnatlas.families._shapes import GLM4_NORMS, HEADS_FIRST, SANDWICH

FAMILY = SANDWICH.but(
    **HEADS_FIRST,
    **GLM4_NORMS,
)
