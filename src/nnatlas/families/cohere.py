"""Command R: attention and MLP in parallel on one LayerNorm, a rotary of neighbouring pairs, logits times a constant."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | * logit_scale",
)
