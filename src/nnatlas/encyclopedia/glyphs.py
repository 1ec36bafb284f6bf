"""Glyphs: a block of a family as a picture the size of a letter, so that lists of families can be read by shape.

The stream runs down the left; a tall box is attention, one of another colour a recurrent mixer, a low one an MLP, a bar a norm
before or after them, side by side what reads the same stream.  Families whose blocks are alike share one glyph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from nnatlas.encyclopedia.anatomy import Anatomy, anatomy
from nnatlas.encyclopedia.chips import NORM, Chip
from nnatlas.encyclopedia.cores import Core
from nnatlas.encyclopedia.outline import Outline
from nnatlas.encyclopedia.stages import Branch, Stage
from nnatlas.families._row import Family

WIDTH, LEAST = 24, 38
"""The box of a glyph: short ones are given air below, so that all are drawn at about one scale."""
LEFT, ROOM = 8.0, 15.0
# an attention is taller than an MLP, so that the two are told apart without colour
HEIGHTS: Final = {"self_attn": 10, "linear_attn": 10, "mlp": 7}
AT_MOST: Final = 3
"""So many sorts of block of one family are shown; the others only differ in what a glyph does not show, or are few."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle of a glyph; `kind` is a part of a block, a norm, another module, or where a branch returns."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Glyph:
    """Marks in a box 24 wide, and a key that is the same for the same marks."""

    key: str
    height: float
    marks: tuple[Mark, ...]


def glyphs(outline: Outline, family: Family, facts: frozenset[str]) -> tuple[Glyph, ...]:
    """A family's sorts of block that look apart, the most frequent first."""
    found: dict[Glyph, int] = {}
    for variant in outline.variants:
        made = glyph(anatomy(outline, variant, family, facts))
        found[made] = found.get(made, 0) + len(variant.blocks)
    return tuple(sorted(found, key=lambda one: -found[one]))[:AT_MOST]


def glyph(block: Anatomy) -> Glyph:
    """One sort of block as marks from top to bottom."""
    marks: list[Mark] = []
    y = 3.0
    for stage in block.stages:
        for mark in _stage(stage, y):
            marks.append(mark)
            y = max(y, mark.y + mark.height)
        y += 3
    key = sha256(repr(marks).encode()).hexdigest()[:6]
    return Glyph(f"g{key}", max(y, LEAST), tuple(marks))


def _stage(stage: Stage, y: float) -> Iterator[Mark]:
    """The marks of a stage from a height on: a shared norm, the branches in columns, their way back, norms on the stream."""
    for _ in stage.shared:
        yield Mark("norm", LEFT, y, ROOM, 2)
        y += 3
    count = len(stage.branches)
    bottom = y
    for at, branch in enumerate(stage.branches):
        wide = (ROOM - 1.5 * (count - 1)) / count
        for mark in _branch(branch, LEFT + at * (wide + 1.5), y, wide):
            yield mark
            bottom = max(bottom, mark.y + mark.height)
    if stage.branches:
        yield Mark("returns", 3, bottom + 1, LEFT + ROOM - 3, 1)
    for at, _ in enumerate(chip for chip in stage.then if chip.tone == NORM):
        yield Mark("norm", 0, bottom + 4 + 3 * at, 7, 2)


def _branch(branch: Branch, x: float, y: float, wide: float) -> Iterator[Mark]:
    """One branch as a column of marks."""
    for part in branch.parts:
        if isinstance(part, Core):
            high = HEIGHTS.get(part.name, 4)
            yield Mark(part.name if part.name in HEIGHTS else "other", x, y, wide, high)
        elif isinstance(part, tuple) or _counts(part):
            high = 2
            yield Mark("norm" if isinstance(part, tuple) or part.tone == NORM else "other", x, y, wide, high)
        else:
            continue
        y += high + 1


def _counts(chip: Chip) -> bool:
    """Norms and modules are drawn, scales and notes are too small for a glyph."""
    return chip.tone in (NORM, "module")
