"""Perception LM: a Llama behind an image and video tower of timm."""

from nnatlas.families._shapes import LLAMA, SMALL_TOWER

FAMILY = LLAMA.but(tiny={"vision_config": SMALL_TOWER | {"model_args": {"embed_dim": 64}}})
