"""Shape: every value has its layout, with the model's own sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from nnatlas import layouts
from nnatlas.check.findings import BROKEN, HOLDS, Finding
from nnatlas.check.registry import law
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import Trial


@law("shape")
def every_value_has_its_layout(trial: Trial) -> Iterator[Finding]:
    """What was read has the axes its layout names and the sizes its host states; a cell that does not fit is broken here."""
    for reading in trial.readings:
        why = trial.snapshot.fault(reading.point) or _fault(trial, reading)
        yield Finding(
            "shape", reading.value.key, reading.where, BROKEN if why else HOLDS, why or str(reading.point.layout)
        )
    for (host, name), why in trial.misfits.items():
        yield Finding("shape", name, host or "model", BROKEN, why)


def _fault(trial: Trial, reading: Reading) -> str | None:
    """Why the value that was read is not of its layout, or None."""
    try:
        value = trial.snapshot.copy(reading.point)
    except Exception as fault:  # noqa: BLE001  a wrong row may give a derived value anything to compute from
        return f"{type(fault).__name__}: {fault}"
    sizes = {**reading.point.sizes, "batch": len(trial.pair), **_positions(reading, trial)}
    if isinstance(value, Tensor):
        return layouts.fault(reading.point.layout, value.shape, sizes)
    return _callable_fault(reading, value, sizes) if callable(value) else None


def _positions(reading: Reading, trial: Trial) -> dict[str, int]:
    """In a forward without a cache every position axis is as long as the prompt."""
    return dict.fromkeys(("seq", "query", "key"), trial.pair.shape[1])


def _callable_fault(reading: Reading, value: Any, sizes: dict[str, int]) -> str | None:
    """`expert_neurons(e)`: right for every expert, and all the tokens they got are all there were."""
    total = 0
    for expert in range(sizes["num_experts"]):
        neurons, positions = value(expert)
        why = layouts.fault(reading.point.layout, neurons.shape, sizes)
        if why or positions.shape != (len(neurons), 2):
            return f"expert {expert}: {why or f'positions are {list(positions.shape)}'}"
        total += len(neurons)
    expected = sizes["batch"] * sizes["seq"] * sizes["top_k"]
    return None if total == expected else f"the experts got {total} tokens, top_k of all positions is {expected}"
