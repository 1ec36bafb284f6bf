"""Granite 4 hybrid: Mamba-2 mixers with attention between them, an always-on MLP beside a mixture, constants on every branch."""

from nnatlas.families._mixers import CARRIED, MAMBA2, MAMBA_NOTES, NO_ATTENTION, PADDED
from nnatlas.families._shapes import BLOCK_ADDS, LLAMA, absent, kind

FAMILY = LLAMA.but(
    mlp=("block_sparse_moe", "shared_mlp"),
    down_proj=("output_linear", absent("the experts' projections are one tensor, not a module")),
    act_fn=("activation", absent("the experts' activation is inside their module")),
    shared_experts="block.shared_mlp",
    attention_output="self_attn > out * residual_multiplier",
    mlp_output="mlp > out * residual_multiplier",
    readout="norm | lm_head | / logits_scaling",
    kinds=(
        kind(
            "sparse",
            "has block_sparse_moe",
            routed_output="mlp > out * residual_multiplier",
            shared_expert_output="shared_experts > out * residual_multiplier",
            mlp_output="added(routed_output, shared_expert_output)",
        ),
        kind(
            "recurrent",
            "has mamba",
            self_attn=absent(NO_ATTENTION),
            linear_attn={
                "path": "mamba",
                **MAMBA2,
                "attention_output": "linear_attn > out * residual_multiplier",
            },
        ),
    ),
    mlp_input="same as mlp_norm_output",
    breaks=CARRIED
    | PADDED
    | BLOCK_ADDS,
    notes=MAMBA_NOTES,
    tiny={
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
        "position_embedding_type": "rope",
        "mamba_d_head": 16,
    },
)
