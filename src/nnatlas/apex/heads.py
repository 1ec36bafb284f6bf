"""Multi-token heads: independent linear readouts of the final stream, each for a token further ahead."""

from __future__ import annotations

import torch
from torch import nn

from nnatlas.apex.configuration import Apex1Config


class Apex1MultiTokenHead(nn.Module):
    """`n_predict` untied heads; head k reads the token `config.head_offsets[k]` places after the one it stands on."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        heads = (nn.Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.n_predict))
        self.heads = nn.ModuleList(heads)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[batch, seq, hidden] -> one [batch, seq, vocab] per head."""
        return tuple(head(hidden_states) for head in self.heads)
