"""FastVLM: a Qwen 2 behind a small, fast image tower of timm."""

from nnatlas.families._shapes import LLAMA, SMALL_TOWER

FAMILY = LLAMA.but(tiny={"vision_config": SMALL_TOWER})
