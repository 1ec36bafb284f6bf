"""The skip gate: a token whose gate is below the threshold passes a block without its feed-forward.

The decision is a hard yes or no, so its gradient is passed straight through: the derivative of the decision is taken as
that of the gate itself (arXiv:1308.3432), which raises the gate where the feed-forward helps.  Outside training,
skipped rows are not computed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nnatlas.apex.configuration import Apex1Config


class Apex1SkipGate(nn.Module):
    """sigmoid(MLP(stream)) per token, and the feed-forward called for the tokens that pass."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.threshold = config.skip_gate_threshold
        hidden, width = config.hidden_size, config.skip_gate_hidden_dim
        self.gate_mlp = nn.Sequential(nn.Linear(hidden, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, stream: torch.Tensor, ffn: nn.Module, ffn_input: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """What the block adds, [batch, seq, hidden]: ffn(ffn_input) where the gate on the stream passes, else 0."""
        gate = self.gate_mlp(stream).sigmoid()  # [batch, seq, 1]
        keep = gate >= self.threshold
        if self.training:
            return ffn(ffn_input, **kwargs) * (keep.to(gate.dtype) + gate - gate.detach())
        if keep.all():
            return ffn(ffn_input, **kwargs)
        if _is_hooked(ffn):
            return ffn(ffn_input, **kwargs) * keep
        rows = keep.squeeze(-1)
        if not rows.any():
            return torch.zeros_like(ffn_input)
        passed = ffn(ffn_input[rows].unsqueeze(0), **kwargs).squeeze(0)
        added = passed.new_zeros(
            ffn_input.shape
        )  # of the feed-forward's dtype, which is not the stream's under autocast
        added[rows] = passed
        return added


def _is_hooked(ffn: nn.Module) -> bool:
    """Whoever watches the feed-forward is shown every row, in the stream's shape."""
    return bool(ffn._forward_hooks or ffn._forward_pre_hooks)
