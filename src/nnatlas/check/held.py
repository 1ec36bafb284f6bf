"""Held: a tensor handed out is the same after the run as when it was read.

Some forwards add into a tensor that they returned before, so what a reader holds would change under its hands.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial


@law("held")
def what_was_handed_out_stays(trial: Trial) -> Iterator[Finding]:
    """The tensor that was handed out, after the forward, against a clone taken as it was handed out: bit for bit."""
    for reading in trial.readings:
        if not isinstance(reading.point, Point):  # a derived tensor is nobody else's
            continue
        now, then = trial.snapshot.kept(reading.point), trial.snapshot.copies.get(reading.point.name)
        if isinstance(now, Tensor) and isinstance(then, Tensor):
            said = "the tensor is what it was when it was read"
            changed = apart(now, then)
            said = said if changed == 0 else "the forward overwrote the tensor later: the cell needs `copied`"
            yield trial.holds("held", reading.value.key, reading.where, said, changed, 0.0)
