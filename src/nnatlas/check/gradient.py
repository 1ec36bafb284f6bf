"""Gradient: the logits have a nonzero, finite gradient at the value, whether or not the parameters ask for one.

A value that is a view, a scaled copy or one part of a fused tensor hangs beside the forward's own graph; only if the engine
joins it in again do the logits depend on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import BROKEN, HOLDS, Finding
from nnatlas.check.parted import parted
from nnatlas.check.registry import law
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import Trial


@law("gradient")
def logits_depend_on_the_value(trial: Trial) -> Iterator[Finding]:
    """Two ways to ask: all values in one forward whose parameters want gradients, and each alone by `requires_grad_()`.

    The second is how a gradient is had from a model that `load` loaded by name, whose parameters want none.
    """
    able: list[Reading] = []
    for reading in trial.readings:
        why = _excused(trial, reading)
        if why is None:
            able.append(reading)
        elif trial.snapshot.fault(reading.point) is None:
            yield trial.excepted("gradient", reading.value.key, reading.where, why)
    together, singled = _with_parameters(trial, able), _singled(trial, able)
    for reading in able:
        alone = reading.label in singled
        why = together.get(reading.label) or (_on_its_own(trial, reading) if alone else None)
        said = why or f"nonzero and finite, {'with and without' if alone else 'with'} gradients of the parameters"
        yield Finding("gradient", reading.value.key, reading.where, BROKEN if why else HOLDS, said)


def _singled(trial: Trial, readings: Sequence[Reading]) -> set[str]:
    """The labels of those asked alone, at a forward each: a value once for every place, and kind of module, that it is read at."""
    first: dict[tuple[Any, ...], str] = {}
    for reading in readings:
        if isinstance(reading.point, Point) and (reading.host.index is None or reading.host.index in trial.firsts):
            place, where = reading.point.place, type(reading.point.module)
            first.setdefault((reading.value.key, place, where, type(reading.host.module)), reading.label)
    return set(first.values())


def _excused(trial: Trial, reading: Reading) -> str | None:
    """Why a value can have no gradient."""
    value = trial.snapshot.copy(reading.point)
    if not isinstance(reading.point, Point):
        return f"derived: {reading.value.read_only or 'computed beside the forward'}"
    if reading.point.read_only:
        return f"read only: {reading.point.read_only}"
    if not isinstance(value, Tensor):
        return "there is no tensor here"
    return None if value.is_floating_point() else f"whole numbers ({value.dtype}) have no gradient"


@contextlib.contextmanager
def _parameters_ask(trial: Trial, ask: bool) -> Iterator[None]:
    """Let every parameter ask for a gradient, or none, and put the flags back."""
    floating = [parameter for parameter in trial.module.parameters() if parameter.is_floating_point()]
    flags = [parameter.requires_grad for parameter in floating]
    try:
        for parameter in floating:
            parameter.requires_grad_(ask)
        yield
    finally:
        for parameter, flag in zip(floating, flags, strict=True):
            parameter.requires_grad_(flag)


def _with_parameters(trial: Trial, readings: Sequence[Reading]) -> dict[str, str]:
    """Faults by label, from one forward in which the parameters ask for gradients; parted where that fails."""
    try:
        with _parameters_ask(trial, True), torch.enable_grad():
            with trial.model.trace(trial.single) as traced:
                values = [traced._run.read(reading.point) for reading in readings]
            asking = [value for value in values if value.requires_grad]
            given = iter(torch.autograd.grad(_score(traced.output.logits), asking, allow_unused=True))
            gradients = [next(given) if value.requires_grad else None for value in values]
    except Exception as fault:  # noqa: BLE001  any fault belongs to one of the readings
        if len(readings) <= 1:
            return {reading.label: f"{type(fault).__name__}: {fault}" for reading in readings}
        first, second = parted(readings, fault)
        return _with_parameters(trial, first) | _with_parameters(trial, second)
    faults = ((reading.label, _fault(gradient)) for reading, gradient in zip(readings, gradients, strict=True))
    return {label: f"{why} (parameters asking)" for label, why in faults if why}


def _on_its_own(trial: Trial, reading: Reading) -> str | None:
    """The fault when only the value asks for a gradient: `x.requires_grad_()`.

    Where the block's own output has a gradient at the value, the rest of the way is that output's, which is asked too, and
    the rest of the forward is not run; else the logits are asked.
    """
    near = _leaving(trial, reading)
    if near is not None and _asked_alone(trial, reading, near) is None:
        return None
    why = _asked_alone(trial, reading, None)
    return why and f"{why} (only the value asking)"


def _leaving(trial: Trial, reading: Reading) -> Point | None:
    """The point where the stream leaves the value's block, if that comes after it."""
    block = reading.host.block or reading.host
    if reading.host.index is None or block.absence("layer_output") is not None:
        return None
    near = Reading(block, block.values["layer_output"], block.point("layer_output"))
    later = trial.snapshot.place(near) > trial.snapshot.place(reading)
    return near.point if later and isinstance(near.point, Point) else None


def _asked_alone(trial: Trial, reading: Reading, near: Point | None) -> str | None:
    """What is wrong with the gradient of a nearer value, or of the logits, at a value that alone asks for one."""
    try:
        with _parameters_ask(trial, False), torch.enable_grad():
            with trial.model.trace(trial.single) as traced:
                value = traced._run.read(reading.point).requires_grad_()
                if near is not None:
                    reached = traced._run.read(near)
                    traced._run.stop()
            reached = traced.output.logits if near is None else reached
            (gradient,) = torch.autograd.grad(_score(reached), [value], allow_unused=True)
    except Exception as fault:  # noqa: BLE001  whatever it is, the value has no gradient
        return f"{type(fault).__name__}: {fault}"
    return _fault(gradient)


def _score(logits: Tensor) -> Tensor:
    """A number that depends on every entry, each with a weight of its own: a plain sum may be constant."""
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1)).to(logits.device)
    return (logits.float() * weights).sum()


def _fault(gradient: Tensor | None) -> str | None:
    """What is wrong with a gradient, or None."""
    if gradient is None:
        return "the logits have no gradient here"
    if not gradient.isfinite().all():
        return "the gradient is not finite"
    return None if gradient.abs().max() > 0 else "the gradient is zero everywhere"
