"""The laws of batches with images: one against many pictures, and prompts with one, two and none against each alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nnatlas.bind.tree import Host
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


def together(trial: Sighted) -> Iterator[Finding]:
    """What the attention of a packed tower holds of two pictures together is what it holds of each alone, one after the other."""
    hosts = [one.host for one in trial.served if one.name == GROUPS]
    if not hosts:
        return
    first, second = trial.pictures[:2]
    alone = [_inside(trial, hosts, [[one]]) for one in (first, second)]
    both = _inside(trial, hosts, [[first], [second]])
    said = "of two pictures together it is that of each alone"
    for seen in (one for one in trial.served if one.label in both):
        parts = [found[seen.label] for found in alone]
        if seen.name == GROUPS:
            parts[1] = parts[1] + parts[0].max() + 1
        expected = _end_to_end(parts, _AXES[seen.name], -math.inf if seen.name == "attention_scores" else 0.0)
        got = _end_to_end([both[seen.label]], 0, 0.0)
        yield trial.close("together", seen.key, seen.host.name, said, got, expected, trial.allowed)


GROUPS = "attention_groups"
_AXES = {
    GROUPS: 0,
    "attention_queries": 2,
    "attention_keys": 2,
    "attention_values": 2,
    "attention_scores": 0,
    "attention_probabilities": 0,
    "attention_head_outputs": 1,
}
"""Along which axis the patches, or the groups of patches, of several pictures lie end to end."""


def _inside(trial: Sighted, hosts: list[Host], pictures: list[list[object]]) -> dict[str, Tensor]:
    """What these attentions hold, by label."""
    labels = [seen.label for seen in trial.served if seen.host in hosts and seen.name in _AXES]
    batch = trial.prepared([TEXT] * len(pictures), pictures)
    with torch.no_grad():
        found = trial.model.collect(batch, labels)
    return {label: found[label].clone().float() for label in labels}


def _end_to_end(parts: list[Tensor], axis: int, filling: float) -> Tensor:
    """Parts laid along one axis, the others filled up to the longest; the least number of any dtype is the same filling."""
    sizes = [max(lengths) for lengths in zip(*(part.shape for part in parts), strict=True)]
    grown = []
    for part in parts:
        room = [(0, 0 if at == axis else size - part.shape[at]) for at, size in enumerate(sizes)]
        grown.append(nn.functional.pad(part, [one for pair in reversed(room) for one in pair], value=filling))
    found = torch.cat(grown, axis)
    return found.masked_fill(found <= torch.finfo(found.dtype).min / 2, -1e4)


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
