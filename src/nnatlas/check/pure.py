"""Pure: reading changes nothing, and neither does writing back a clone.

Bit for bit where the configured implementation runs; where a value is only to be had by going through the attention step by
step, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import BROKEN, HOLDS, Finding, apart
from nnatlas.check.parted import parted
from nnatlas.check.registry import law
from nnatlas.check.rows import editable
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import Trial
from nnatlas.engine import Run

Act = Callable[[Run, Reading], None]


@law("pure")
def reading_changes_nothing(trial: Trial) -> Iterator[Finding]:
    """The logits of a run that reads, against those of the bare forward."""
    yield from _undisturbed(trial, trial.readings, _read, "reading it")


@law("pure")
def writing_back_a_clone_changes_nothing(trial: Trial) -> Iterator[Finding]:
    """The logits of a run that assigns each value a clone of itself, against those of the bare forward."""
    editables = [reading for reading in trial.readings if editable(reading)]
    yield from _undisturbed(trial, editables, _write_back, "writing back a clone")


def _read(run: Run, reading: Reading) -> None:
    """Only look."""
    run.read(reading.point)


def _write_back(run: Run, reading: Reading) -> None:
    """Replace the tensor by another of the same numbers."""
    value = run.read(reading.point)
    if isinstance(value, Tensor):
        run.write(reading.point, value.clone())


def _undisturbed(trial: Trial, readings: Sequence[Reading], act: Act, said: str) -> Iterator[Finding]:
    """Those that leave the implementation alone together, then the others together; the guilty ones by name."""
    readings = [reading for reading in readings if trial.snapshot.fault(reading.point) is None]
    for exact in (True, False):
        group = [reading for reading in readings if _exactly(trial, reading, said) == exact]
        guilty = _guilty(trial, group, act, 0.0 if exact else trial.other_course)
        for reading in group:
            allowed = "bit for bit" if exact else "up to rounding"
            why = guilty.get(reading.label, f"{said} changes nothing, {allowed}")
            status = BROKEN if reading.label in guilty else HOLDS
            yield Finding("pure", reading.value.key, reading.where, status, why)


def _exactly(trial: Trial, reading: Reading, said: str) -> bool:
    """Whether nothing but the value's own tensor is touched: no other attention runs, no factor is divided out again."""
    eager = getattr(trial.owner.config, "_attn_implementation", None) == "eager"
    scaled = isinstance(reading.point, Point) and bool(reading.point.codec.scales) and said != "reading it"
    return (eager or not reading.changes_course) and not scaled and trial.repeats


def _guilty(trial: Trial, readings: Sequence[Reading], act: Act, allowed: float) -> dict[str, str]:
    """The readings that disturb the logits, found by parting them until each stands alone."""
    if not readings or (why := _disturbance(trial, readings, act, allowed)) is None:
        return {}
    if len(readings) == 1:
        return {readings[0].label: why}
    first, second = parted(readings, why)
    return _guilty(trial, first, act, allowed) | _guilty(trial, second, act, allowed)


def _disturbance(trial: Trial, readings: Sequence[Reading], act: Act, allowed: float) -> str | None:
    """How the logits moved, in words; None where they did not."""
    try:
        with torch.no_grad(), trial.model.trace(trial.single) as traced:
            for reading in readings:
                act(traced._run, reading)
    except Exception as fault:  # noqa: BLE001  any fault belongs to one of the readings
        return f"{type(fault).__name__}: {fault}"
    moved = apart(traced.output.logits, trial.bare)
    return f"the logits move by {moved:.1e}, {allowed:.0e} is allowed" if moved > allowed else None
