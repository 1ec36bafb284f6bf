"""Llama 4's and Llama 3.2's towers: tiles with a class token, a norm on either side of the blocks."""

from nnatlas.families.towers._shapes import VIT

TOWERS = (
    VIT.but(name="llama4", covers="llama4_vision_model", axes={"batch": "tiles", "seq": "patches_and_class"}, layers="model.layers"),
)
