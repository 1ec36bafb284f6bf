"""Granite with a mixture of experts and one shared MLP beside it: what the two add is summed in the block."""

from nnatlas.families._shapes import BLOCK_ADDS, LLAMA, NO_SHARED, absent, kind

FAMILY = LLAMA.but(
    attention_output="self_attn > out * residual_multiplier",
    mlp="block_sparse_moe",
    mlp_input="mlp > in copied",
    mlp_output="added(routed_output, shared_expert_output)",
    shared_experts=("block.shared_mlp", absent(NO_SHARED)),
    readout="norm | lm_head | / logits_scaling",
    kinds=(
        kind(
            "sparse",
            "has block_sparse_moe",
            routed_output="mlp > out * residual_multiplier",
            shared_expert_output=("shared_experts > out * residual_multiplier", absent(NO_SHARED)),
        ),
        kind("unshared", "lacks shared_mlp", mlp_output="mlp > out * residual_multiplier"),
    ),
    breaks=BLOCK_ADDS,
    tiny={"shared_intermediate_size": 112},
)
