"""Molmo 2: a text model of its own behind an image tower; some sizes norm after each sublayer, some norm all heads at once."""

from nnatlas.families._shapes import ALL_HEADS, LLAMA, NORMS_AFTER, kind

FAMILY = LLAMA.but(
    kinds=(kind("norm after", "config.norm_after", **NORMS_AFTER), kind("all heads", "config.qk_norm_type = olmo", **ALL_HEADS)),
    tiny={"adapter_config.vision_feature_layer": [1, 0]},
)
