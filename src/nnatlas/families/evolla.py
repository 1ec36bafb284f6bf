"""Evolla: a Llama with adapters at the end of some blocks, which read a protein where one is given."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    passes="base.protein_encoder block.adapter",
    notes={"layer_output": "where a protein is given, with what the block's adapter adds, which no value names"},
)
