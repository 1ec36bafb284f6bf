"""EXAONE 4.0: norms sit on what attention and MLP write; full-attention blocks among sliding ones apply no rotary."""

from nnatlas.families._shapes import POST_NORM

FAMILY = POST_NORM.but()
