"""PaddleOCR-VL: an ERNIE 4.5 behind an image tower, with a rotary of three sections: time, height and width."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"text_config.rope_parameters.mrope_section": [2, 5, 5]},
)
