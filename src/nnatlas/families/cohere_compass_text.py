"""Cohere Compass without its image tower: a parallel block with a rotary of three sections on the sliding blocks."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | maybe * logit_scale",
    tiny={
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4]},
        },
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    },
)
