"""From an encoder's projection to features: the activation of every architecture, each a function of `x @ W_enc`.

standard    relu                                     Bricken et al. 2023, Cunningham et al. 2023
topk        the k largest, then relu                 Gao et al. 2024
groupmax    the largest of each of k groups          sparsify
jumprelu    what exceeds a threshold of its own      Rajamanoharan et al. 2024
gated       a gate decides, a magnitude says         Rajamanoharan et al. 2024
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Activation = Callable[[Tensor], Tensor]
"""`[..., d_sae] -> [..., d_sae]`."""


def relu(bias: Tensor) -> Activation:
    """Standard."""
    return lambda projected: torch.relu(projected + bias)


def tanh_relu(bias: Tensor) -> Activation:
    """An older choice of SAELens: features are at most 1."""
    return lambda projected: torch.relu(projected + bias).tanh()


def top_k(bias: Tensor, k: int, sizes: Tensor | None = None) -> Activation:
    """The k largest of each token; with `sizes`, the decoder's norms, largest by what they write."""

    def activate(projected: Tensor) -> Tensor:
        before = projected + bias if sizes is None else (projected + bias) * sizes
        best = before.topk(k, dim=-1)
        return torch.zeros_like(before).scatter_(-1, best.indices, best.values.relu())

    return activate


def group_max(bias: Tensor, k: int) -> Activation:
    """The largest of each of k groups of neighbouring features."""

    def activate(projected: Tensor) -> Tensor:
        grouped = torch.relu(projected + bias).unflatten(-1, (k, -1))
        best = grouped.max(-1, keepdim=True)
        return torch.zeros_like(grouped).scatter_(-1, best.indices, best.values).flatten(-2)

    return activate


def jump_relu(bias: Tensor, threshold: Tensor) -> Activation:
    """What exceeds its feature's threshold, whole."""

    def activate(projected: Tensor) -> Tensor:
        before = projected + bias
        return torch.relu(before) * (before > threshold)

    return activate


def gated(gate_bias: Tensor, magnitude_bias: Tensor, log_scale: Tensor) -> Activation:
    """Gate and magnitude share one projection; the magnitude's is scaled by each feature."""
    magnitude = relu(magnitude_bias)
    return lambda projected: (projected + gate_bias > 0) * magnitude(projected * log_scale.exp())
