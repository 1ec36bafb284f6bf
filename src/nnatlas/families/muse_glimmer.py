"""Muse Glimmer: sandwich norms, gated heads, one norm for queries and keys, blocks without a rotary, capped logits."""

from nnatlas.families._shapes import AS_CALLED, GATED_HEADS, SANDWICH, kind

FAMILY = SANDWICH.but(
    **GATED_HEADS,
    **AS_CALLED,
    q_norm="qk_norm",
    k_norm="qk_norm",
    readout="norm | lm_head | * output_multiplier | cap final_logit_softcapping",
    kinds=(
        kind(
            "no rotary",
            "not config.layer_rope_theta",
            unrotated_queries="same as attention_queries",
            unrotated_keys="same as attention_keys",
        ),
    ),
)
