"""Gemma 3: sandwich norms, query and key heads normed, five sliding blocks to every full one, each kind with its own rotary."""

from nnatlas.families._shapes import HEADS_FIRST, SANDWICH

FAMILY = SANDWICH.but(
    **HEADS_FIRST,
    readout="norm | lm_head | maybe cap final_logit_softcapping",
)
