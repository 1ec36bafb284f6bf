"""IDEFICS: Llama's blocks, and gated cross attention to the images between some of them."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    passes="base.gated_cross_attn_layers",
    notes={"layer_input": "after the gated cross attention to the images that stands before some blocks"},
    breaks={"chain block.layer_input": "a gated cross attention to the images stands before some blocks"},
)
