"""Heads for tokens further ahead: several readouts of one stream, as one tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.points import Computed
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run


@derived()
def stacked(run: Run, point: Computed, outputs: tuple[Tensor, ...] | Any) -> Tensor:
    """A tuple of tensors of one shape as one tensor, the tuple's axis after the batch."""
    return torch.stack(tuple(outputs), dim=1)
