"""Hunyuan behind an image tower, with a rotary of four sections; queries and keys are normed after the rotary."""

from nnatlas.families.hunyuan_v1_dense import FAMILY as HUNYUAN_V1_DENSE

FAMILY = HUNYUAN_V1_DENSE.twin(tiny={"text_config.rope_parameters.mrope_section": [3, 3, 3, 3]})
