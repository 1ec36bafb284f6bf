"""Phi: attention and MLP in parallel on one LayerNorm, a partial rotary, biases everywhere."""

from nnatlas.families._shapes import HEADS_FIRST, PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    **HEADS_FIRST,
    norm="base.final_layernorm",
    o_proj="dense",
    up_proj="fc1",
    down_proj="fc2",
)
