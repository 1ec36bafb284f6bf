"""Causal: an edit of the value reaches the logits, in place and by assignment alike, and never those of earlier positions."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import BROKEN, HOLDS, Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.rows import Effect, edit_by_assignment, edit_in_place, editable, effects, has_position
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import WHOLE_FORWARD, Trial
from nnatlas.errors import AtlasError, ReadOnly

BACKWARD = "causal earlier positions"
"""What a row declares whose positions see those after them."""


@law("causal")
def edits_reach_the_logits(trial: Trial) -> Iterator[Finding]:
    """One position of every value is moved by noise of its own size; values that take no edit must refuse it and say why.

    A whole batch is edited at once, a row for each value: see `rows`.
    """
    candidates = [reading for reading in trial.readings if trial.snapshot.fault(reading.point) is None]
    tried = [r for r in candidates if editable(r) and isinstance(trial.snapshot.copy(r.point), Tensor)]
    in_place, assigned = effects(trial, tried, edit_in_place), effects(trial, tried, edit_by_assignment)
    for reading in tried:
        yield _judged(trial, reading, in_place[reading.label], assigned[reading.label])
    for reading in candidates:
        if not editable(reading):
            yield _refused(trial, reading)
    if (reason := trial.owner.family.breaks.get(BACKWARD)) is not None:
        yield trial.excepted("causal", "earlier positions", "model", reason)


def _judged(trial: Trial, reading: Reading, in_place: Effect | str, assigned: Effect | str) -> Finding:
    """What the two ways of editing did, in one finding."""
    allowed = WHOLE_FORWARD * trial.tolerance
    ordered = has_position(reading) and BACKWARD not in trial.owner.family.breaks
    for way, effect in (("in place", in_place), ("by assignment", assigned)):
        if isinstance(effect, str):
            return trial.broken("causal", reading, f"an edit {way} failed: {effect}")
        if ordered and effect.earlier > allowed:
            return _finding(reading, f"an edit {way} changes the logits of earlier positions", effect.earlier)
        if not (effect.reaches if ordered else max(effect.later, effect.earlier) > 10 * effect.noise):
            return trial.broken("causal", reading, f"an edit {way} does not change the logits")
    assert isinstance(in_place, Effect) and isinstance(assigned, Effect)
    differs = apart(in_place.logits, assigned.logits)
    if differs > allowed:
        return _finding(reading, "an edit in place and the same by assignment give different logits", differs)
    return Finding("causal", reading.value.key, reading.where, HOLDS, "edits reach the logits", in_place.later)


def _finding(reading: Reading, why: str, deviation: float) -> Finding:
    """A broken finding with what was measured."""
    return Finding("causal", reading.value.key, reading.where, BROKEN, why, deviation)


def _refused(trial: Trial, reading: Reading) -> Finding:
    """A read-only value refuses an assignment, and says why."""
    reason = (
        reading.point.read_only
        or reading.value.read_only
        or (reading.point.place.text if isinstance(reading.point, Point) and reading.point.place else "")
    )
    try:
        with trial.model.trace(trial.single) as traced:
            traced._run.write(reading.point, 0.0)
    except ReadOnly:
        return trial.excepted("causal", reading.value.key, reading.where, f"read only: {reason}")
    except AtlasError as other:
        return trial.broken("causal", reading, f"assigning raises {type(other).__name__}: {other}")
    return trial.broken("causal", reading, "it is read only, but an assignment is accepted")
