"""Cohere 2 with a mixture of experts and an averaged shared one, in parallel with the attention."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | * logit_scale",
    tiny={"num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
)
