"""The two shapes everything is measured on: SmolLM2-135M's, and a toy of 12 layers where overheads show."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import nnatlas

SHAPES = {
    "12-layer toy": dict(
        num_hidden_layers=12,
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=768,
        vocab_size=2048,
    ),
    "135M": dict(
        num_hidden_layers=30,
        hidden_size=576,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49152,
    ),
}
"""Shape name -> Llama config fields; "135M" is SmolLM2-135M's own shape (random weights: no download is needed)."""

TOKENS = 64


@cache
def bare(shape: str) -> LlamaForCausalLM:
    """The transformers model by itself, without gradients, on sdpa."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPES[shape], tie_word_embeddings=True)).eval()
    return model.requires_grad_(False)


@cache
def ours(shape: str) -> nnatlas.StandardizedTransformer:
    """The same module under nnatlas."""
    return nnatlas.load(bare(shape))


def ids(shape: str) -> Tensor:
    return torch.arange(TOKENS)[None] % SHAPES[shape]["vocab_size"]
