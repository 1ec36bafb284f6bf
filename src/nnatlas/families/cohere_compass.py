"""Cohere Compass: a parallel Cohere 2 block behind an image tower; image features are added to the stream between early blocks."""

from nnatlas.families._shapes import PARALLEL_ONE_NORM

FAMILY = PARALLEL_ONE_NORM.but(
    readout="norm | lm_head | maybe * logit_scale",
    tiny={
        "text_config.rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4]},
        },
        "text_config.layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    },
)
