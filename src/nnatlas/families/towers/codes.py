"""Towers that are no stacks of transformer blocks: VQ-VAEs, layers that merge patches, and networks of convolutions."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import VIT

_VQ_VAE = "a VQ-VAE: convolutions, and then the nearest of its codes for each place"
_MERGES = "its few layers merge squares of patches into one, without attention"

_CODES = VIT.but(
    name="codes",
    layers=absent(_VQ_VAE),
    patch_embed="encoder.conv_in",
    norm=absent(_VQ_VAE),
    patch_embeddings=absent("a network of convolutions has no patches of its own"),
    tower_output="quant_conv > out : images channels rows columns as images rows columns channels",
    notes={"tower_output": "what the nearest code is looked for, at every place"},
)

TOWERS = (
    _CODES.but(name="codes", covers="chameleon_vqgan"),
    _CODES.but(
        name="codes_in_time",
        covers="emu3_vqgan",
        tower_output="quant_conv > out : images channels frames rows columns as images frames rows columns channels",
    ),
    _CODES.but(
        name="codes_one_by_one",
        covers="apertus1p5_vision_tokenizer",
        tower_output=absent("each picture is made into codes by a call of its own: see image_features"),
    ),
    VIT.but(
        name="convolutions",
        covers="timm_wrapper gemma3n_vision",
        layers=absent("a network of convolutions, with attention in some of its last stages, which keeps its native names"),
        patch_embed=absent("a network of convolutions has no patches of its own"),
        norm=absent("the last map goes to the projector as it is"),
        patch_embeddings=absent("a network of convolutions has no patches of its own"),
        tower_output="block > out.last_hidden_state : images channels rows columns as images rows columns channels",
    ),
    VIT.but(
        name="merging",
        covers="inkling_vision",
        layers=absent(_MERGES),
        patch_embed="encoder_layers.0",
        norm="final_norm",
        patch_embeddings="patch_embed > out as patches frames rows columns channels",
        tower_output="norm > out as patches frames rows columns hidden_size",
    ),
)
