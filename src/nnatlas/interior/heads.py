"""What each attention head adds, computed from the heads' outputs and the output projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.points import Computed
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run
from nnatlas.errors import Unavailable


@derived()
def head_contributions(run: Run, point: Computed, premix: Tensor) -> Tensor:
    """Each head through its slice of the output projection: `[batch, seq, num_heads, hidden_size]`.

    They sum to the attention's output less the projection's bias, and before any norm on it; a constant that scales the
    attention's output scales them too.
    """
    projection = point.host.role("o_proj")[0]
    rows = projection_rows(projection, premix.flatten(-2))
    split = rows.unflatten(0, premix.shape[-2:])  # heads, head_dim, hidden
    parts = torch.einsum("...hd,hdo->...ho", premix, split)
    for scale, divides in point.host.point("attention_output").codec.scales:
        parts = parts / scale() if divides else parts * scale()
    return parts


@derived()
def grouped_contributions(run: Run, point: Computed, premix: Tensor) -> Tensor:
    """The same through two matrices: one for each group of heads, `[batch, seq, groups, width]`, and one for all that they give.

    Both are linear, so each head still has a part of its own and the parts sum to the output.
    """
    first: Any = point.host.point("attention_premix")
    groups, width = premix.shape[-2:]
    heads = point.sizes["num_heads"] // groups
    low = first.module.weight.to(premix.dtype).reshape(groups, -1, heads, width // heads)  # group, rank, head, head_dim
    narrow = torch.einsum("...ghd,grhd->...ghr", premix.unflatten(-1, (heads, -1)), low)
    rows = projection_rows(point.host.role("o_proj")[0], narrow.sum(-2).flatten(-2))
    high = rows.unflatten(0, (groups, -1))  # group, rank, hidden
    return torch.einsum("...ghr,gro->...gho", narrow, high).flatten(-3, -2)


def projection_rows(projection: nn.Module, like: Tensor) -> Tensor:
    """What a projection makes of each dimension of its input (`like` is one), less its bias: `[in, out]`.

    Of a plain matrix that is the weight, whichever way round the module keeps it.  A module of several parts (an adapter
    beside the matrix) and one whose weight is elsewhere (offloaded) are asked, past any hook on them.
    """
    weight = getattr(projection, "weight", None)
    if projection._modules or (weight is not None and weight.is_meta and not like.is_meta):
        unit = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
        rows: Tensor = projection.forward(unit) - projection.forward(torch.zeros_like(unit[:1]))
        return rows.to(like)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or not weight.is_floating_point():
        raise Unavailable(f"the weight of {type(projection).__name__} is not a plain matrix; load without quantization")
    return (weight if hasattr(projection, "nf") else weight.T).to(like.dtype)
