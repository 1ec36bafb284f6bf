"""Perception LM: a Llama behind an image and video tower of timm."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 64,
            "intermediate_size": 112,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 56,
            "patch_size": 14,
            "model_args": {"embed_dim": 64},
        },
    },
)
