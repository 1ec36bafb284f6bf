"""Positions counted among each row's real tokens, whatever the padding: 0 is a row's first, -1 its last."""

from __future__ import annotations

import torch
from torch import Tensor

from nnatlas.errors import InputError


def real_positions(mask: Tensor, at: int) -> Tensor:
    """Where in the padded batch each row's position `at` stands, `[batch]`; `mask` `[batch, seq]` tells the real ones.

    >>> real_positions(torch.tensor([[0, 1, 1], [1, 1, 1]]), -2)
    tensor([1, 1])

    Raises:
        InputError: a row has fewer tokens.
    """
    mask = mask.bool()
    counts = mask.sum(-1)
    short = (counts < (-at if at < 0 else at + 1)).nonzero().flatten().tolist()
    if short:
        raise InputError(f"position {at} of row {short[0]}, which has {int(counts[short[0]])} tokens")
    wanted = counts + at if at < 0 else torch.full_like(counts, at)
    return ((mask.cumsum(-1) - 1 == wanted[:, None]) & mask).int().argmax(-1)
