"""Granite with experts, a shared MLP, sliding windows and a learned sink per head, applied as a gate."""

from nnatlas.families._shapes import LLAMA, NO_SHARED, SINK_GATE, absent, kind

FAMILY = LLAMA.but(
    attention_output="self_attn > out * residual_multiplier",
    **SINK_GATE,
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
    breaks={
        "chain mlp.mlp_output": "the block adds the mixture and the shared MLP up on its own",
        "chain mlp.routed_output": "the shared MLP stands beside the mixture, in the block",
    },
    tiny={"shared_intermediate_size": 112, "layer_rope_theta": [10000.0, 500.0, 10000.0, 10000.0]},
)
