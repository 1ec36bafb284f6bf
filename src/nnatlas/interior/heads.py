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
    rows = projection_rows(projection).to(premix.dtype)
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
    high = (
        projection_rows(point.host.role("o_proj")[0]).to(premix.dtype).unflatten(0, (groups, -1))
    )  # group, rank, hidden
    narrow = torch.einsum("...ghd,grhd->...ghr", premix.unflatten(-1, (heads, -1)), low)
    return torch.einsum("...ghr,gro->...gho", narrow, high).flatten(-3, -2)


def projection_rows(projection: nn.Module) -> Tensor:
    """A projection's weight as `[in, out]`, whichever way round the module keeps it."""
    weight = getattr(projection, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2 or not weight.is_floating_point():
        raise Unavailable(f"the weight of {type(projection).__name__} is not a plain matrix; load without quantization")
    return weight if hasattr(projection, "nf") else weight.T
