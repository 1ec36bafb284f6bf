"""BLIP-2's tower: EVA's ViT with a class token and one fused projection for queries, keys and values."""

from nnatlas.families.towers._shapes import VIT, WITH_CLASS

TOWERS = (
    VIT.but(
        name="blip_2",
        covers="blip_2_vision_model instructblip_vision_model instructblipvideo_vision_model",
        axes=WITH_CLASS,
        o_proj="projection",
    ),
)
