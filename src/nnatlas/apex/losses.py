"""The training loss: the next token, plus the multi-token heads at their own distances."""

from __future__ import annotations

import torch
from torch import nn

from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.masks import Prefix, prefix_ends
from nnatlas.errors import InputError

IGNORE = -100


def without_prefix(labels: torch.Tensor, prefix_len: Prefix, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """Labels [batch, seq], those inside each row's bidirectional prefix ignored: its rows have seen them already."""
    if isinstance(prefix_len, int) and prefix_len == 0:
        return labels
    ends = prefix_ends(prefix_len, attention_mask, labels)
    inside = torch.arange(labels.shape[1], device=labels.device) < ends[:, None]
    return labels.masked_fill(inside, IGNORE)


def ahead_loss(
    logits: torch.Tensor, labels: torch.Tensor, offset: int, num_items: torch.Tensor | int | None = None
) -> torch.Tensor | None:
    """Cross-entropy in nats of logits [batch, seq, vocab] for the label `offset` places on; None if no place has one.

    The sum over `num_items` (gradient accumulation: the count over all micro-batches of a step), or the mean over the
    labels that are not ignored, which is 0 where all are.
    """
    if offset >= labels.shape[1]:
        return None
    flat, target = logits[:, :-offset].flatten(0, 1).float(), labels[:, offset:].flatten()
    total = nn.functional.cross_entropy(flat, target, ignore_index=IGNORE, reduction="sum")
    return total / ((target != IGNORE).sum().clamp(min=1) if num_items is None else num_items)


def training_loss(
    config: Apex1Config,
    logits: torch.Tensor,
    spec_logits: tuple[torch.Tensor, ...] | None,
    labels: torch.Tensor,
    num_items: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """CE(next token) + lambda_spec * mean over heads of CE(token at the head's offset).

    Heads that reach past the end of every row are left out of the mean.
    """
    loss = ahead_loss(logits, labels, 1, num_items)
    if loss is None:
        raise InputError(f"nothing to predict in labels of shape {list(labels.shape)}; give two tokens or more")
    heads = zip(spec_logits or (), config.head_offsets, strict=False)  # without spec_logits there are still offsets
    terms = [ahead_loss(head, labels, offset, num_items) for head, offset in heads]
    reached = [term for term in terms if term is not None]
    return loss + config.lambda_spec * torch.stack(reached).mean() if reached else loss
