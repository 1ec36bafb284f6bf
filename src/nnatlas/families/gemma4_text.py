"""Gemma 4 without its towers: sandwich norms, an input per layer, and a factor on the whole stream."""

from nnatlas.families._shapes import GEMMA4, GEMMA4_PER_LAYER, SANDWICH, kind

FAMILY = SANDWICH.but(
    **GEMMA4,
    kinds=(
        kind("per-layer input", "has post_per_layer_input_norm", identity=GEMMA4_PER_LAYER),
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
    passes="base.embed_tokens_per_layer base.per_layer_* block.per_layer_* block.post_per_layer_input_norm",
    tiny={"head_dim": 8, "per_layer_config": {"3": {"head_dim": 16}}},
)
