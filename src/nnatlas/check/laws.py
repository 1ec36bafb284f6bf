"""Every law's file, imported so that it registers itself."""

from nnatlas.check import (
    batch,
    causal,
    chain_attention,
    chain_ends,
    chain_heads,
    chain_mlp,
    chain_recurrence,
    chain_stream,
    clean,
    gradient,
    head,
    held,
    pure,
    residual,
    shape,
    whole,
)

__all__ = [
    "batch",
    "causal",
    "chain_attention",
    "chain_ends",
    "chain_heads",
    "chain_mlp",
    "chain_recurrence",
    "chain_stream",
    "clean",
    "gradient",
    "head",
    "held",
    "pure",
    "residual",
    "shape",
    "whole",
]
