"""Reading a residual stream out as logits, by the family's readout cell: `norm | lm_head | * logit_scale`."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from nnatlas.bind.cells import _find, scale_of
from nnatlas.bind.tree import BoundModel
from nnatlas.errors import RowDoesNotFit
from nnatlas.places import Absent, Factor


def project(model: BoundModel, hidden: Tensor) -> Tensor:
    """Put the stream through every stage of the readout, in order."""
    stages = [stage.strip() for stage in model.family.readout.split("|")]
    return reduce(lambda tensor, stage: _apply(model, stage, tensor), stages, hidden)


def _apply(model: BoundModel, stage: str, tensor: Tensor) -> Tensor:
    """One stage: a module, `maybe` a module, `* f`, `/ f`, or `cap f` (f·tanh(x/f))."""
    word, _, rest = stage.partition(" ")
    if word in ("*", "/"):
        scale = scale_of(model.root, Factor(rest, word == "/"))()
        return tensor / scale if word == "/" else tensor * scale
    if word == "cap":
        cap = scale_of(model.root, Factor(rest))()
        return torch.tanh(tensor / cap) * cap
    found = _find(model.root, rest if word == "maybe" else stage)
    if isinstance(found, Absent):
        if word == "maybe":
            return tensor
        raise RowDoesNotFit(f"families/{model.family.name}.py, readout {stage!r}: {found.reason}")
    return found[0](tensor)
