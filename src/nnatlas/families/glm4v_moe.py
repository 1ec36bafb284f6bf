"""GLM 4.5V: GLM 4.5 behind an image tower, with a rotary of three sections."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    tiny={"text_config.rope_parameters.mrope_section": [1, 1, 2]},
)
