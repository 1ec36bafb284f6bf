"""What both attention kinds share: the step-by-step attention, used under `attn_implementation="eager"`.

Query heads are folded into the rows of the kv head they share, so keys and values are never repeated in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def fold_heads(x: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """[batch, heads, seq, width] -> [batch, kv heads, heads per kv head * seq, width]; neighbours share a kv head."""
    batch, _, _, width = x.shape
    return x.reshape(batch, num_kv_heads, -1, width)


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention in plain torch: query [batch, heads, seq, width], key and value [batch, kv heads, keys, width].

    `attention_mask` is added to the scores (None: every key is visible).  Returns each head's output
    [batch, seq, heads, value width] and the pattern [batch, heads, seq, keys].
    """
    batch, heads, seq, _ = query.shape
    scores = (fold_heads(query, key.shape[1]) @ key.transpose(2, 3)).view(batch, heads, seq, -1) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    pattern = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    pattern = nn.functional.dropout(pattern, p=dropout, training=module.training)
    mixed = (fold_heads(pattern, value.shape[1]) @ value).view(batch, heads, seq, -1)
    return mixed.transpose(1, 2).contiguous(), pattern
