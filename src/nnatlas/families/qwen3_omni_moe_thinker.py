"""Qwen 3-Omni: a Qwen 3 with a mixture of experts behind image, video and audio towers."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"vision_start_token_id": 300, "vision_end_token_id": 301},
)
