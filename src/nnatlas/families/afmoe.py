"""AFMoE (Trinity): sandwich norms, gated heads, a rotary on sliding blocks only, and experts chosen by sigmoid scores."""

from nnatlas.families._shapes import GATED_HEADS, SANDWICH

FAMILY = SANDWICH.but(
    **GATED_HEADS,
    mlp_norm="pre_mlp_layernorm",
    mlp_post_norm="post_mlp_layernorm",
    passes="block.mlp.expert_bias",
)
