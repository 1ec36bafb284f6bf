"""Multi-token heads: independent linear readouts of the final stream, each for a token further ahead.

What heads that read one position cannot know is which tokens are placed in between.  A draft chain, where the model has
one (`draft_width`), tells them while drafting; the heads' own logits stay what they are.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers.activations import ACT2FN

from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.norm import Apex1RMSNorm


class Apex1DraftChain(nn.Module):
    """A state that starts as the final stream at the last accepted position and is moved by each token placed after it.

    What it has moved by, read through the model's own head, is added to the next multi-token head's logits: heads in
    sequence, as in Hydra (arXiv:2402.05109), at one small SwiGLU per draft.
    """

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.norm = Apex1RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.W_gate = nn.Linear(2 * config.hidden_size, config.draft_width, bias=False)
        self.W_up = nn.Linear(2 * config.hidden_size, config.draft_width, bias=False)
        self.W_down = nn.Linear(config.draft_width, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]
        # a forward with labels does not draft: data-parallel training would wait for gradients that never come
        self.requires_grad_(False)

    def forward(self, state: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """state and the placed token's scaled embedding, each [..., hidden] -> the next state."""
        read = torch.cat((self.norm(state), embedded), dim=-1)
        return state + self.W_down(self.act_fn(self.W_gate(read)) * self.W_up(read))


class Apex1MultiTokenHead(nn.Module):
    """`n_predict` untied heads; head k reads the token `config.head_offsets[k]` places after the one it stands on."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        heads = (nn.Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.n_predict))
        self.heads = nn.ModuleList(heads)
        self.chain = Apex1DraftChain(config) if config.draft_width else None

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[batch, seq, hidden] -> one [batch, seq, vocab] per head."""
        return tuple(head(hidden_states) for head in self.heads)
