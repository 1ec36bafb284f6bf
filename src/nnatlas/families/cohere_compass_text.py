"""Cohere Compass without its image tower: a parallel block with a rotary of three sections on the sliding blocks."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

_THREE_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4]}

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | maybe * logit_scale",
    tiny={
        "rope_parameters": {"full_attention": _THREE_SECTIONS, "sliding_attention": _THREE_SECTIONS},
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    },
)
