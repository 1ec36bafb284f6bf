"""Patching written out: one whole forward for each patch, with nothing of `nnatlas.patching`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.tiny_models import tiny
from torch import Tensor

from nnatlas.model import StandardizedTransformer

CLEAN = torch.tensor([5, 9, 2, 30, 7, 11, 40, 41, 42, 43, 44, 45])
CORRUPTED = torch.tensor([5, 9, 61, 30, 7, 62, 40, 41, 42, 43, 44, 45])
"""Longer than the tiny models' windows of 8; the first two tokens are shared, and most of the others."""


def metric(logits: Tensor) -> Tensor:
    return logits[:, 17] - logits[:, 3]


def value_of(model: Any, path: str, layer: int) -> Tensor:
    host, _, name = path.rpartition(".")
    block = model.layers[layer]
    return getattr(getattr(block, host) if host else block, name)


def patched(model: Any, prompt: Tensor, path: str, layer: int, edit: Callable[[Tensor], None]) -> float:
    """The metric of one whole forward, with one value edited."""
    with torch.no_grad(), model.trace(prompt):
        edit(value_of(model, path, layer))
        logits = model.logits
    return float(metric(logits[:, -1]))


def sources(model: Any, prompt: Tensor, path: str) -> list[Tensor]:
    with torch.no_grad(), model.trace(prompt):
        return [value_of(model, path, layer).clone() for layer in range(model.num_layers)]


def by_position(model: Any, source: Tensor, base: Tensor, path: str, positions: range) -> Tensor:
    """`layers positions`, each a forward of its own."""
    clean = sources(model, source, path)

    def one(layer: int, at: int) -> float:
        def edit(value: Tensor) -> None:
            value[:, at] = clean[layer][:, at]

        return patched(model, base, path, layer, edit)

    return torch.tensor([[one(layer, at) for at in positions] for layer in range(model.num_layers)])


def by_head(model: Any, source: Tensor, base: Tensor, path: str, axis: int) -> Tensor:
    """`layers heads`; `axis` is where the value's heads lie."""
    clean = sources(model, source, path)

    def one(layer: int, head: int) -> float:
        return patched(
            model, base, path, layer, lambda value: value.select(axis, head).copy_(clean[layer].select(axis, head))
        )

    return torch.tensor([[one(layer, head) for head in range(clean[layer].shape[axis])] for layer in range(len(clean))])


def model_of(name: str) -> StandardizedTransformer:
    from nnatlas.model import load

    return load(name) if name == "apex-1" else tiny(name)
