"""Command R7B and Command A: Command R's parallel block; sliding blocks rotate neighbouring pairs, full blocks rotate nothing."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | * logit_scale",
)
