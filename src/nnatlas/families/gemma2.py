"""Gemma 2: norms before and after each sublayer, scores and logits capped by tanh, sliding and full attention in turn."""

from nnatlas.families._shapes import SANDWICH

FAMILY = SANDWICH.but(
    readout="norm | lm_head | maybe cap final_logit_softcapping",
)
