"""CLIP: a class token in front of the patches, a norm before the first block; the norm after the last reads the class token alone."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import VIT, WITH_CLASS

TOWERS = (
    VIT.but(
        name="clip",
        covers="clip_vision_model idefics_vision",
        axes=WITH_CLASS,
        norm=absent("the tower's last norm reads the class token alone, which no projector reads"),
    ),
    VIT.but(
        name="kosmos_2",
        covers="kosmos_2_vision_model",
        axes=WITH_CLASS,
        layers="model.encoder.layers",
        patch_embed="model.embeddings.patch_embedding",
        pre_norm="model.pre_layrnorm",
        norm=absent("the tower's last norm is called for the class token first, and then for all patches"),
    ),
)
