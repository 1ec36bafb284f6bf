"""The laws of batches with images: one against many pictures, and prompts with one, two and none against each alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nnatlas.check.findings import Finding, apart
from nnatlas.check.vision.sighted import TEXT, Sighted


def many(trial: Sighted) -> Iterator[Finding]:
    """A picture's features beside another picture are those it has alone."""
    if trial.tower.root.absence("image_features") is not None:
        return
    first, second = trial.pictures[:2]
    alone = [_features(trial, [[one]]) for one in (first, second)]
    together = _features(trial, [[first], [second]])
    said = "the features of two pictures together are those of each alone"
    yield trial.close("many", "vision.image_features", "vision", said, together, torch.cat(alone), trial.allowed)


def _features(trial: Sighted, pictures: list[list[object]]) -> Tensor:
    batch = trial.prepared([TEXT] * len(pictures), pictures)
    with torch.no_grad():
        found: Tensor = trial.model.collect(batch, ["vision.image_features"])["vision.image_features"]
    return found.clone()


def rows(trial: Sighted) -> Iterator[Finding]:
    """The same prompt with one picture, with two and with none in one batch: each row equals that prompt alone."""
    first, second, third = trial.pictures
    pictures = [[first], [second, third], []]
    try:
        together = _logits(trial, pictures)
    except (ValueError, RuntimeError, TypeError, IndexError, AttributeError) as fault:
        yield trial.finding("rows", "logits", "model", f"the batch does not run: {type(fault).__name__}: {fault}")
        return
    for at, own in enumerate(pictures):
        try:
            alone = _logits(trial, [own])[0]
        except (ValueError, TypeError) as refused:
            yield trial.excepted("rows", "logits", f"row {at}", f"the model refuses text alone: {refused}")
            continue
        deviation = apart(together[at, -len(alone) :], alone)
        wrong = None if deviation <= trial.allowed else f"the row differs from the prompt alone by {deviation:.1e}"
        said = f"the row with {len(own)} pictures equals the prompt alone"
        yield trial.finding("rows", "logits", f"row {at}", wrong, said, deviation)


def _logits(trial: Sighted, pictures: list[list[object]]) -> Tensor:
    return trial.logits(trial.prepared([TEXT] * len(pictures), pictures))
