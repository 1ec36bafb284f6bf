"""DiffusionGemma: a Gemma 4 that refines a canvas of tokens at once, reading the prompt through an encoder's cache."""

from nnatlas.families._shapes import GEMMA4, GEMMA4_SPARSE, SANDWICH

_RANDOM = "the canvas is drawn at random in every forward that is not given decoder_input_ids"
_CANVAS = "positions are those of the canvas, which all see each other and the prompt"

FAMILY = SANDWICH.but(
    **GEMMA4,
    base="model.decoder",
    kinds=(GEMMA4_SPARSE,),
    notes={"layer_input": "of the canvas, which is drawn at random unless decoder_input_ids is passed"},
    passes="base.self_conditioning root.model.encoder block.*_feedforward_layernorm_*",
    breaks=dict.fromkeys(("shape", "chain", "causal", "batch"), _CANVAS) | {"pure": _RANDOM},
    tiny={
        "canvas_length": 12,
        "text_config.num_experts": 4,
        "text_config.top_k_experts": 2,
        "text_config.moe_intermediate_size": 48,
        "text_config.head_dim": 8,
        "text_config.per_layer_config": {"3": {"head_dim": 16}},
    },
)
