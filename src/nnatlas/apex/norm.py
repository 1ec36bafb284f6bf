"""Root-mean-square norm, computed in float32 whatever the stream's dtype: 300 squared overflows float16."""

from __future__ import annotations

import torch
from torch import nn


class Apex1RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (arXiv:1910.07467)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape ending in `width`; same shape and dtype out."""
        return nn.functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)
