"""From several parallel residual streams to the one vector that norm and head read, where no module of the model does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.tree import BoundModel
from nnatlas.places import Absent

LEAST = 1e-5


def side_by_side(model: BoundModel, streams: Tensor) -> Tensor:
    """`[..., streams, hidden_size]` as one axis, for a module that keeps them so."""
    return streams.flatten(-2)


def unembedded(model: BoundModel, streams: Tensor) -> Tensor:
    """AltUp's way back (Baykal et al. 2023, arXiv:2301.13310): each further stream is projected and given the first one's
    size, and their mean is taken.
    """
    first, base = streams[..., 0, :], _base(model)
    parts = [first, *(project(streams[..., at + 1, :]) for at, project in enumerate(base.altup_unembed_projections))]
    size = first.square().mean(-1, keepdim=True) ** 0.5
    sized = [part * size / part.square().mean(-1, keepdim=True).clamp(min=LEAST).sqrt() for part in parts[1:]]
    return torch.stack([first, *sized]).mean(0)


MERGES: dict[str, Callable[[BoundModel, Tensor], Tensor]] = {"side_by_side": side_by_side, "unembedded": unembedded}
"""Stages that a readout may name."""


def _base(model: BoundModel) -> Any:
    """The module that plays the base."""
    base = model.root.roles["base"]
    assert not isinstance(base, Absent)
    return base[0]
