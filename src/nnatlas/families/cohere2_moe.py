"""Cohere 2 with a mixture of experts and an averaged shared one, in parallel with the attention."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM, kind

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | * logit_scale",
    kinds=(
        kind(
            "averaged",
            "has mlp.shared_experts and config.shared_expert_combination_strategy = average",
            routed_output="experts > out : (batch seq) hidden_size / 2",
            shared_expert_output="shared_experts > out : (batch seq) hidden_size / 2",
        ),
    ),
    tiny={"num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
)
