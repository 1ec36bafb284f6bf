"""EXAONE 4: norms sit on what attention and MLP write; full-attention blocks among sliding ones apply no rotary."""

from nnatlas.families._shapes import HEADS_FIRST, POST_NORM

FAMILY = POST_NORM.but(
    covers="exaone4 exaone4_5",
    **HEADS_FIRST,
)
