"""Gemma 4: sandwich norms, wider heads on full blocks, an input per layer, and a factor on the whole stream."""

from nnatlas.families._shapes import GEMMA4, GEMMA4_BREAKS, GEMMA4_PER_LAYER, GEMMA4_SPARSE, SANDWICH, kind

FAMILY = SANDWICH.but(
    **GEMMA4,
    kinds=(GEMMA4_SPARSE, kind("per-layer input", "has post_per_layer_input_norm", identity=GEMMA4_PER_LAYER)),
    passes="base.embed_tokens_per_layer base.per_layer_* block.per_layer_* block.post_per_layer_input_norm"
    " block.*_feedforward_layernorm_*",
    breaks=GEMMA4_BREAKS,
    tiny={"text_config.head_dim": 8, "text_config.per_layer_config": {"3": {"head_dim": 16}}},
)
