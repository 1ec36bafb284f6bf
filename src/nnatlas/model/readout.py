"""Reading a residual stream out as logits, by the family's readout cell: `norm | lm_head | * logit_scale`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.cells import _find, scale_of
from nnatlas.bind.sizes import setting
from nnatlas.bind.tree import BoundModel
from nnatlas.errors import RowDoesNotFit, Unavailable
from nnatlas.interior.streams import MERGES
from nnatlas.places import Absent, Factor


def project(model: BoundModel, hidden: Tensor) -> Tensor:
    """Put the stream through every stage of the readout, in order."""
    readout = model.family.readout
    if isinstance(readout, Absent):
        raise Unavailable(f"one stream cannot be read out here: {readout.reason}", readout.reason)
    return reduce(lambda tensor, stage: through(model, stage, tensor), stages_of(model), hidden)


def stages_of(model: BoundModel) -> list[str]:
    """The stages of the readout in order; none where there is none."""
    readout = model.family.readout
    return [] if isinstance(readout, Absent) else [stage.strip() for stage in readout.split("|")]


def through(model: BoundModel, stage: str, tensor: Tensor) -> Tensor:
    """One stage: a module, `* f`, `/ f`, `cap f` (f·tanh(x/f)), `keep f` (the first f entries of the vocabulary), `never f`
    (entries that are put down to the least number), or a way of making one stream of several that `interior.streams` knows.

    With `maybe` in front it is left out where the model has no such module, or its config leaves the field open.
    """
    maybe = stage.startswith("maybe ")
    stage = stage.removeprefix("maybe ")
    if stage in MERGES:
        return MERGES[stage](model, tensor)
    word, _, field = stage.partition(" ")
    if field:
        absent = maybe and setting(model.config, field) is None
        return tensor if absent else NUMERIC[word](tensor, scale_of(model.root, Factor(field))())
    found = _find(model.root, stage)
    if isinstance(found, Absent):
        if maybe:
            return tensor
        raise RowDoesNotFit(f"families/{model.family.name}.py, readout {stage!r}: {found.reason}")
    return found[0](tensor)


NUMERIC: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "*": lambda tensor, factor: tensor * factor,
    "/": lambda tensor, divisor: tensor / divisor,
    "cap": lambda tensor, bound: torch.tanh(tensor / bound) * bound,
    "keep": lambda tensor, count: tensor[..., : int(count)],
    "never": lambda tensor, ids: barred(tensor, ids, torch.finfo(tensor.dtype).min),
}
"""What a readout may do with a number that the config states, or with ids that a module keeps."""


def barred(logits: Tensor, ids: Any, value: float) -> Tensor:
    """Logits `[..., vocab_size]` with one value at tokens that the model never gives (a list of their ids)."""
    return logits.index_fill(-1, torch.tensor(ids, dtype=torch.long, device=logits.device), value)
