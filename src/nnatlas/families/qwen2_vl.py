"""Qwen 2-VL and 2.5-VL: a Qwen 2 behind an image tower, with a rotary of three sections: time, height and width."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="qwen2_vl qwen2_5_vl",
    tiny={"text_config.rope_parameters.mrope_section": [2, 3, 3]},
)
