"""Apertus 1.5: Apertus over image and audio tokens in the same vocabulary."""

from nnatlas.families._shapes import HEADS_FIRST, LLAMA

FAMILY = LLAMA.but(
    **HEADS_FIRST,
    attention_norm="attention_layernorm",
    mlp_norm="feedforward_layernorm",
    tiny={
        "image_token_offset": 262,
        "audio_token_offset": 286,
        "vision_config.codebook_size": 24,
        "audio_config.codebook_size": 24,
        "audio_config.codebook_dim": 64,
    },
)
