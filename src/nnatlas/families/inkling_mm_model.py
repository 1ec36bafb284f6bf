"""Inkling behind an image tower: learned relative positions, and short convolutions on what each sublayer writes."""

from nnatlas.families.inkling_text import FAMILY as INKLING_TEXT

FAMILY = INKLING_TEXT.twin(
    tiny={
        "vision_config.patch_size": 4,
        "vision_config.num_hidden_layers": 4,
        "text_config.log_scaling_n_floor": 4,
        "text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
)
