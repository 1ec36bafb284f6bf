"""Granite with a mixture of experts: Granite's constants, and a router that weighs only the chosen scores."""

from nnatlas.families._shapes import GRANITE, LLAMA, kind

FAMILY = LLAMA.but(
    **GRANITE,
    mlp="block_sparse_moe",
    readout="norm | lm_head | / logits_scaling",
    kinds=(kind("sparse", "has block_sparse_moe"),),
)
