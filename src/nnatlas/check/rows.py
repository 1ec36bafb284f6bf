"""Runs over a batch of equal rows in which every row bears one value's edit: one forward tries many values at once.

Why rows: an edit in its own row cannot be mistaken for another's, and forty edits cost one forward instead of forty.  A row
may differ from its neighbours only by its own edit, so a row in which nothing was edited says what each is compared with, and a
second such row how far equal rows differ anyway (a mixture of experts sorts tokens of all rows together).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import is_number, mean_size
from nnatlas.check.parted import parted
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import Trial
from nnatlas.engine import Run

AT_ONCE = 48
POSITION_AXES = ("seq", "query")


class Effect(NamedTuple):
    """What an edit did to the logits, relative to their size: from the edited position on, and before it.

    `noise` is what two rows without any edit differ by: a mixture of experts groups its tokens, so rows are not quite alone.
    """

    later: float
    earlier: float
    noise: float
    logits: Tensor

    @property
    def reaches(self) -> bool:
        return self.later > 10 * max(self.noise, self.earlier)


def edit_in_place(run: Run, reading: Reading, row: int, at: int) -> None:
    """Write into the tensor that was handed out."""
    value = run.read(reading.point)
    _part(value[row], reading, at).copy_(changed(value[row], reading, at))


def edit_by_assignment(run: Run, reading: Reading, row: int, at: int) -> None:
    """Hand the forward another tensor."""
    value = run.read(reading.point)
    new = value.detach().clone()
    _part(new[row], reading, at).copy_(changed(value[row], reading, at))
    run.write(reading.point, new)


def effects(
    trial: Trial, readings: Sequence[Reading], edit: Callable[[Run, Reading, int, int], None]
) -> dict[str, Effect | str]:
    """The effect of each value's edit by label, or why it could not be made."""
    found: dict[str, Effect | str] = {}
    for start in range(0, len(readings), AT_ONCE):
        found |= _tried(trial, readings[start : start + AT_ONCE], edit)
    return found


def _tried(trial: Trial, readings: Sequence[Reading], edit: Callable[..., None]) -> dict[str, Effect | str]:
    """All at once; where that fails, parted, until the culprit stands alone."""
    try:
        return _one_forward(trial, readings, edit)
    except Exception as fault:  # noqa: BLE001  any fault belongs to one of the values
        if len(readings) == 1:
            return {readings[0].label: f"{type(fault).__name__}: {fault}"}
        first, second = parted(readings, fault)
    return _tried(trial, first, edit) | _tried(trial, second, edit)


def _one_forward(trial: Trial, readings: Sequence[Reading], edit: Callable[..., None]) -> dict[str, Effect | str]:
    """Row i bears the edit of value i; the last two bear none: what the others are compared with, and how well rows agree."""
    ids = trial.single.repeat(len(readings) + 2, 1)
    with torch.no_grad(), trial.model.trace(ids) as traced:
        for row, reading in enumerate(readings):
            edit(traced._run, reading, row, trial.edited_at)
    logits = traced.output.logits.float()
    control = logits[-1]
    size = mean_size(control).float().clamp(min=1e-30)
    moved = ((logits[:-1] - control) / size).abs().flatten(2).amax(-1)  # value, position
    moved = torch.nan_to_num(moved, nan=float("inf"))
    noise, cut = float(moved[-1].max()), trial.edited_at
    return {
        reading.label: Effect(float(moved[row, cut:].max()), float(moved[row, :cut].max()), noise, logits[row])
        for row, reading in enumerate(readings)
    }


def has_position(reading: Reading) -> bool:
    return any(axis in POSITION_AXES for axis in reading.axes)


def _part(row: Tensor, reading: Reading, at: int) -> Tensor:
    """One row's slice at a position, or the whole row where the layout names no position axis."""
    axis = next((axis for axis in reading.axes if axis in POSITION_AXES), None)
    return row if axis is None else row.select(reading.axes.index(axis) - 1, at)


def changed(row: Tensor, reading: Reading, at: int) -> Tensor:
    """What the edit puts there: noise of the value's own size on numbers, the next one for ids, a zero for a mask."""
    part = _part(row.detach(), reading, at)
    if not part.is_floating_point():
        return _next(part, reading)
    counted = is_number(part)  # a mask's minus infinity stays
    seed = torch.Generator().manual_seed(crc32(reading.value.key.encode()))
    noise = torch.randn(part.shape, generator=seed).to(part)
    size = part[counted].float().square().mean().sqrt()
    size = (size.clamp(min=1e-3) if size > 0 else torch.ones_like(size)).to(
        part.dtype
    )  # zeros: a state before its prompt
    return torch.where(counted, part + noise * size, part)


def _next(part: Tensor, reading: Reading) -> Tensor:
    if reading.value.name == "attention_mask" or part.dtype == torch.bool:
        return torch.zeros_like(part)
    sizes = reading.point.sizes
    return (part + 1) % sizes["num_experts" if reading.value.host == "mlp" else "vocab_size"]


def editable(reading: Reading) -> bool:
    return isinstance(reading.point, Point) and not reading.point.read_only
