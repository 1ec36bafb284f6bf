"""Probing: how well a linear classifier reads a property off each value, against labels that mean nothing.

A probe with many dimensions and few prompts learns anything, so every score stands beside a control: the same probe on
the same vectors with shuffled labels (after the control tasks of Hewitt & Liang 2019).  Both are cross-validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.grid.shown import needed
from nnatlas.model.asked import at_least, value_names
from nnatlas.model.positions import real_positions
from nnatlas.model.prompts import read

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

COLUMNS = ("score", "control", "selectivity")


@dataclass(frozen=True, repr=False)
class Probes(Shown):
    """Scores of one probe for each value; made by `probe`.

    `scores` and `controls` are `values folds`: accuracy, or for numbers R².  `chance` is what always saying the most
    frequent label (or the mean) scores.  `vectors` are what was probed, `values` names them.
    """

    values: tuple[str, ...]
    scores: Tensor
    controls: Tensor
    chance: float
    kind: str
    vectors: tuple[Tensor, ...] = field(repr=False)
    labels: Any = field(repr=False)

    @property
    def selectivity(self) -> Tensor:
        """The mean score less the mean control, by value."""
        return self.scores.mean(1) - self.controls.mean(1)

    @property
    def best(self) -> str:
        """The value that is read best, by its mean score."""
        return self.values[int(self.scores.mean(1).argmax())]

    def fit(self, value: str) -> Any:
        """A probe of one value fitted on everything, a scikit-learn pipeline: `.predict(vectors)`, `.decision_function`."""
        if value not in self.values:
            raise InputError(f"{value!r} was not probed; there is {', '.join(self.values)}")
        return _estimator(self.kind).fit(self.vectors[self.values.index(value)].numpy(), self.labels)

    def grid(self) -> Grid | Pages:
        """Values by mean score, control and their difference."""
        columns = torch.stack([self.scores.mean(1), self.controls.mean(1), self.selectivity], 1)
        spread = self.scores.std(1)
        hover = [[f"over {self.scores.shape[1]} folds ± {float(one):.3f}", "", ""] for one in spread]
        note = f"control: shuffled labels; always the same answer scores {self.chance:.3f}"
        title = f"linear probes, {self.kind}"
        return Grid(columns, Axis("value", self.values), Axis("measure", COLUMNS), title=title, hover=hover, note=note)


def probe(
    model: StandardizedTransformer,
    prompts: Sequence[Any],
    labels: Sequence[Any],
    values: str | Iterable[str] = "layers.*.layer_output",
    *,
    position: int | None = -1,
    folds: int = 5,
    rows: int = 16,
    seed: int = 0,
    **keywords: Any,
) -> Probes:
    """Train and cross-validate a linear probe on each value.

    Args:
        model: any model that `nnatlas.load` made.
        prompts: one for each label.
        labels: classes (texts, integers, booleans): a logistic regression on scaled vectors, scored by accuracy; or
            floats: a ridge regression, scored by R².
        values: names or patterns, as `model.collect` takes them, of values `batch seq ...`.
        position: where each prompt is read, counted among its real tokens, -1 the last; None takes their mean.
        folds: of the cross-validation, each class in every one.
        rows: prompts run at once.
        seed: of folds and shuffles.

    Raises:
        InputError: not as many labels as prompts, a class with fewer members than folds, or no scikit-learn.

    Example:
        >>> past = ["She walked home", "He ate bread", "They ran away", "I saw him", "We made tea", "You took it"]
        >>> now = ["She walks home", "He eats bread", "They run away", "I see him", "We make tea", "You take it"]
        >>> found = probe(model, past + now, [1] * 6 + [0] * 6)
        >>> found.best  # where the tense is told apart best
        'layers...layer_output'
    """
    needed("sklearn")
    if isinstance(prompts, str):
        raise InputError("prompts are a list of texts, one for each label; this is one text")
    at_least(2, folds=folds)
    at_least(1, rows=rows)
    if len(prompts) != len(labels):
        raise InputError(f"{len(labels)} labels for {len(prompts)} prompts")
    kind = "R²" if all(isinstance(label, float) for label in labels) else "accuracy"
    _check_classes(labels, folds, kind)
    names = value_names(values)
    vectors = _vectors(model, prompts, names, position, rows, keywords)
    found = {name: _validated(vector, labels, kind, folds, seed) for name, vector in vectors.items()}
    scores, controls = (torch.tensor([pair[at] for pair in found.values()]) for at in (0, 1))
    return Probes(tuple(vectors), scores, controls, _chance(labels, kind), kind, tuple(vectors.values()), list(labels))


def _vectors(
    model: StandardizedTransformer,
    prompts: Sequence[Any],
    names: list[str],
    position: int | None,
    rows: int,
    keywords: Any,
) -> dict[str, Tensor]:
    """What is probed, by value: `prompts features`, in float32 on the CPU."""
    parts: dict[str, list[Tensor]] = {}
    for start in range(0, len(prompts), rows):
        found, batch = read(model, list(prompts[start : start + rows]), names, **keywords)
        for name, value in found.items():
            parts.setdefault(name, []).append(_at(value, batch.mask, position))
    return {name: torch.cat(part) for name, part in parts.items()}


def _at(value: Tensor, real: Tensor, position: int | None) -> Tensor:
    """One vector for each row: at its position, or the mean over its real tokens."""
    flat = value.flatten(2).float().cpu()
    if position is None:
        weights = real[..., None].float()
        return (flat * weights).sum(1) / weights.sum(1)
    return flat[torch.arange(len(flat)), real_positions(real, position)]


def _estimator(kind: str) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000) if kind == "accuracy" else Ridge())


def _validated(
    vectors: Tensor, labels: Sequence[Any], kind: str, folds: int, seed: int
) -> tuple[list[float], list[float]]:
    """Scores by fold on the labels, and on the same labels shuffled."""
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    truth = np.asarray(labels)
    split = (StratifiedKFold if kind == "accuracy" else KFold)(folds, shuffle=True, random_state=seed)
    shuffled = np.random.default_rng(seed).permutation(truth)
    score = lambda said: cross_val_score(_estimator(kind), vectors.numpy(), said, cv=split).tolist()
    return score(truth), score(shuffled)


def _check_classes(labels: Sequence[Any], folds: int, kind: str) -> None:
    if len(labels) < folds:
        raise InputError(f"{len(labels)} prompts for {folds} folds: give more prompts, or fewer folds")
    if kind != "accuracy":
        return
    try:
        counts = {label: list(labels).count(label) for label in dict.fromkeys(labels)}
    except TypeError:
        raise InputError(
            "a label is a class (a text, a whole number, true or false) or a float, one for each prompt"
        ) from None
    rare = min(counts, key=lambda label: counts[label])
    if len(counts) < 2 or counts[rare] < folds:
        said = ", ".join(f"{label!r} {count} times" for label, count in counts.items())
        raise InputError(f"{folds} folds need two classes or more, each {folds} times or more; there is {said}")


def _chance(labels: Sequence[Any], kind: str) -> float:
    if kind != "accuracy":
        return 0.0
    return max(list(labels).count(label) for label in set(labels)) / len(labels)
