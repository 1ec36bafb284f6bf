"""Which modules' outputs make the sum that a block adds to its stream, and with what factors.

A block that adds weighs outputs of a few modules inside it: of all combinations of up to three the first that makes the
difference between what leaves and what enters, by least squares, is taken.  A factor must then be a number that the config
states; one that is not is a factor nobody can explain, and the residual law will refuse the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nnatlas.guess.probe import Note, same

PLAIN = 1e-4
"""A factor this near to 1 is 1."""


class Sum(NamedTuple):
    """The modules whose outputs were added, in the order in which they ended, and their factors."""

    parts: tuple[Note, ...]
    factors: tuple[float, ...]


def find(added: Tensor, candidates: Iterable[Note]) -> Sum | None:
    """The fewest outputs that make `added` (least squares); of equal ones, those that stand highest in the block."""
    notes = sorted(_distinct(candidates, added), key=lambda note: note.ended)
    for count in (1, 2, 3):
        for parts in combinations(notes, count):
            factors = _solve(added, parts)
            if factors is not None:
                return Sum(parts, factors)
    return None


def _distinct(candidates: Iterable[Note], added: Tensor) -> list[Note]:
    """Candidates of the right shape; where several returned the same, the highest."""
    kept: list[Note] = []
    for note in sorted(candidates, key=lambda note: (note.path.count("."), -note.ended)):
        fits = note.returned is not None and note.returned.shape == added.shape
        if fits and not any(same(note.returned, other.returned) for other in kept):
            kept.append(note)
    return kept


def _solve(added: Tensor, parts: tuple[Note, ...]) -> tuple[float, ...] | None:
    """Factors with which the parts make the sum, or None if they do not."""
    columns = torch.stack([part.returned.double().flatten() for part in parts if part.returned is not None], 1)
    target = added.double().flatten()
    factors = torch.linalg.lstsq(columns, target[:, None]).solution[:, 0]
    if not same((columns @ factors).reshape(added.shape), added.double()):
        return None
    if factors.abs().min() < 1e-3:
        return None
    return tuple(1.0 if abs(one - 1) < PLAIN else one for one in factors.tolist())


def named(factor: float, config: Any) -> str | None:
    """The suffix of a cell for a factor: nothing for 1, `* field` or `/ field` for a number that the config states."""
    if factor == 1.0:
        return ""
    for name, value in _numbers(config).items():
        for sign, number in (("*", value), ("/", 1 / value)):
            if abs(factor - number) < PLAIN * abs(number):
                return f" {sign} {name}"
    return None


def _numbers(config: Any) -> Mapping[str, float]:
    """The config's fields that are numbers other than 0 and 1."""
    fields = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    return {n: float(v) for n, v in fields.items() if isinstance(v, int | float) and v not in (0, 1, True, False)}
