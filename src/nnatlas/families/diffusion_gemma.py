"""DiffusionGemma: a Gemma 4 that refines a canvas of tokens at once, reading the prompt through the cache of an encoder with the same weights."""

from nnatlas.families._shapes import GEMMA4, SANDWICH, kind

FAMILY = SANDWICH.but(
    **GEMMA4,
    base="model.decoder",
    kinds=(
        kind(
            "sparse",
            "has experts",
            router="block.router",
            experts="block.experts",
            routed_output="block.post_feedforward_layernorm_2 > out",
            shared_expert_output="block.post_feedforward_layernorm_1 > out",
            mlp_activation="act_fn > out as batch seq dense_size",
            mlp_neurons="down_proj > in as batch seq dense_size",
        ),
    ),
    notes={"layer_input": "of the canvas, which is drawn at random unless decoder_input_ids is passed"},
    passes="base.self_conditioning root.model.encoder",
    breaks={
        "shape": "positions are those of the canvas, not of the prompt",
        "pure": "the canvas is drawn at random in every forward",
    },
    tiny={
        "text_config.num_experts": 4,
        "text_config.top_k_experts": 2,
        "text_config.moe_intermediate_size": 48,
        "text_config.head_dim": 8,
        "text_config.per_layer_config": {"3": {"head_dim": 16}},
    },
)
