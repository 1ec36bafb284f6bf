"""Qwen 2.5-Omni: a Qwen 2 behind image, video and audio towers, with a rotary of three sections."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={
        "text_config.rope_parameters.mrope_section": [2, 3, 3],
        "vision_start_token_id": 300,
        "vision_end_token_id": 301,
    },
)
