"""Batch: a left-padded row equals the prompt alone, and cached generation, with reads on, equals the full forward.

Padding fails where positions are not counted from the first real token, or where a mixer without a mask runs over the
padding; a cache fails where a step's values are read from the wrong place or the wrong time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.check.findings import BROKEN, HOLDS, Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import WHOLE_FORWARD, Trial

NEW_TOKENS = 3
_GROWING = ("seq", "query", "key")


@law("batch")
def a_padded_row_equals_the_prompt_alone(trial: Trial) -> Iterator[Finding]:
    """Two prompts of unequal length in one batch: the shorter, padded on the left, gives what it gives by itself."""
    long, short = trial.pair[0].tolist(), trial.pair[1, : trial.pair.shape[1] * 3 // 5].tolist()
    names = [f"layers.{b.index}.layer_output" for b in trial.blocks if b.absence("layer_output") is None]
    names += ["logits"] if trial.owner.root.absence("logits") is None else []
    with torch.no_grad():
        padded, alone = (trial.model.collect(prompt, names) for prompt in ([long, short], [short]))
    for name in names:
        *where, value = name.split(".")
        key = "logits" if value == "logits" else f"block.{value}"
        deviation = apart(padded[name][1, -len(short) :], alone[name][0])
        said = "the left-padded row equals the prompt alone"
        host = f"layers[{where[1]}]" if where else "model"
        yield trial.holds("batch", f"padding {key}", host, said, deviation, WHOLE_FORWARD * trial.tolerance)


@law("batch")
def cached_steps_equal_the_full_forward(trial: Trial) -> Iterator[Finding]:
    """Greedy tokens of a generation that reads every value at every step, and those values, against one full forward.

    Teacher forcing makes one forward do: over the generated ids it computes what an uncached generation would at each step.
    """
    if not trial.module.can_generate():
        yield trial.unproven("batch", "cache", "model", "this model does not generate")
        return
    readings = [reading for reading in trial.readings if _grows(trial, reading)]
    ids, steps = _generated(trial, readings)
    yield _same_tokens(trial, ids)
    full = _read(trial, readings, ids[:, :-1])
    for reading in readings:
        yield _same_values(trial, reading, [step[reading.label] for step in steps], full[reading.label])


def _grows(trial: Trial, reading: Reading) -> bool:
    """Numbers with a position axis, inside the blocks or at the end."""
    value = trial.snapshot.copy(reading.point)
    numbers = isinstance(value, Tensor) and value.is_floating_point() and isinstance(reading.point, Point)
    return numbers and any(axis in _GROWING for axis in reading.axes)


def _generated(trial: Trial, readings: list[Reading]) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Greedy ids, and every reading at every step."""
    steps = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # a checkpoint's own sampling settings are not at issue
        with trial.model.generate(trial.single, max_new_tokens=NEW_TOKENS, do_sample=False, **_PLAIN) as traced:
            for _ in traced.steps():
                read = {one.label: traced._run.read(one.point).detach().clone() for one in readings}
                steps.append(read)
    output = traced.output
    return getattr(output, "sequences", output), steps


_PLAIN: dict[str, Any] = {"repetition_penalty": 1.0, "use_cache": True}


def _read(trial: Trial, readings: list[Reading], ids: Tensor) -> dict[str, Tensor]:
    """The values of one plain forward."""
    with torch.no_grad(), trial.model.trace(ids) as traced:
        return {reading.label: traced._run.read(reading.point).detach().clone() for reading in readings}


def _same_tokens(trial: Trial, ids: Tensor) -> Finding:
    """Greedy tokens are the argmax of a full forward over themselves; near ties may fall either way."""
    start = trial.single.shape[1]
    logits = trial.logits(ids[:, :-1])[:, start - 1 :].float()
    chosen = logits.gather(-1, ids[:, start:, None])[..., 0]
    short = float(((logits.amax(-1) - chosen) / logits.std()).max())
    said = f"{ids.shape[1] - start} greedy tokens, cached, are those of a full forward"
    return trial.holds("batch", "cache tokens", "model", said, short, WHOLE_FORWARD * trial.tolerance)


def _same_values(trial: Trial, reading: Reading, steps: list[Tensor], full: Tensor) -> Finding:
    """What each cached step served is the corresponding piece of the full forward."""
    worst, length = 0.0, trial.single.shape[1]
    for number, got in enumerate(steps):
        expected = _piece(reading, full, length + number, got)
        worst = max(worst, apart(_unmasked(got, expected), _unmasked(expected, expected)))
    status = HOLDS if worst <= WHOLE_FORWARD * trial.tolerance else BROKEN
    said = "values of cached steps are those of a full forward"
    return Finding("batch", f"cache {reading.value.key}", reading.where, status, said, worst)


def _piece(reading: Reading, full: Tensor, length: int, got: Tensor) -> Tensor:
    """Of a full forward, the positions up to `length`, of which a step gives the last (a cache: as many as it keeps)."""
    for axis, name in enumerate(reading.axes):
        if name in _GROWING:
            kept = min(got.shape[axis], length)
            full = full.narrow(axis, length - kept, kept)
        elif name.startswith("key_and_"):  # one more column, always the last
            kept = min(got.shape[axis] - 1, length)
            seen, extra = full.narrow(axis, length - kept, kept), full.narrow(axis, full.shape[axis] - 1, 1)
            full = torch.cat((seen, extra), axis)
    return full


def _unmasked(scores: Tensor, like: Tensor) -> Tensor:
    """A mask's huge negative numbers differ by implementation and would drown the rest."""
    if scores.shape != like.shape:
        return scores
    return torch.where(like.abs() > torch.finfo(like.dtype).max * 1e-4, torch.zeros_like(scores), scores)
