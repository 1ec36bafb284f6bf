"""What a patching sweep found: a number for each pair and place, that shows itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.model.asked import at_least
from nnatlas.patching.cells import Cell

SAME = 1e-6
"""Clean and corrupted runs whose metrics are closer than this cannot be told apart by it."""


class Agreement(NamedTuple):
    """How near an estimate comes to the exact sweep: Pearson's correlation, and the largest error, in the metric's units."""

    correlation: float
    max_error: float


@dataclass(frozen=True, repr=False)
class Patching(Shown):
    """The metric after each patch: `values`, with the axes `pairs` and then `axes`, on the CPU in float32.

    `clean` and `corrupted` `[pairs]` are the metric of the two prompts as they are.  `metric` says in words what was
    measured for each pair, `way` how the sweep was run, and `note` why not quicker (empty where it was the quickest).  A
    place that a block does not have is NaN.

    Printing it shows the normalised numbers, averaged over pairs; `html`, `png` and `frame` likewise.
    """

    values: Tensor
    axes: tuple[Axis, ...]
    clean: Tensor
    corrupted: Tensor
    metric: tuple[str, ...]
    title: str
    way: str
    note: str = ""

    @cached_property
    def normalised(self) -> Tensor:
        """(value - corrupted) / (clean - corrupted): 0 is what the corrupted prompt gives, 1 what the clean one does.

        Raises:
            InputError: a pair's two prompts give the same number, so there is nothing to normalise by.
        """
        span = self.clean - self.corrupted
        if bool((span.abs() < SAME).any()):
            pair = int(span.abs().argmin())
            raise InputError(
                f"the metric ({self.metric[pair]}) is {float(self.clean[pair]):.4g} after both prompts of pair {pair}: "
                "it cannot tell them apart"
            )
        wide = (-1, *[1] * len(self.axes))
        return (self.values - self.corrupted.view(wide)) / span.view(wide)

    def agreement(self, exact: Patching) -> Agreement:
        """Compare an estimate with the exact sweep of the same grid, place by place."""
        if not isinstance(exact, Patching):
            raise InputError(f"an estimate is compared with another sweep, not with a {type(exact).__name__}")
        if self.values.shape != exact.values.shape:
            raise InputError(f"grids of {list(self.values.shape)} and {list(exact.values.shape)} cannot be compared")
        known = exact.values.isfinite() & self.values.isfinite()
        both = torch.stack([self.values[known], exact.values[known]]).double()
        return Agreement(float(torch.corrcoef(both)[0, 1]), float((both[0] - both[1]).abs().max()))

    def largest(self, count: int = 5) -> list[tuple[str, float]]:
        """The places whose normalised numbers (mean over pairs) are farthest from 0, in words, the farthest first."""
        at_least(0, count=count)
        shown = self.normalised.mean(0)
        order = shown.abs().nan_to_num().flatten().argsort(descending=True, stable=True)[:count]
        found = ([int(at) for at in torch.unravel_index(flat, shown.shape)] for flat in order)
        return [
            (", ".join(axis.words(at) for axis, at in zip(self.axes, where, strict=True)), float(shown[tuple(where)]))
            for where in found
        ]

    # -- how it looks ----------------------------------------------------------------------------------------------

    def grid(self) -> Grid | Pages:
        """Normalised numbers averaged over pairs; a further axis makes pages."""
        shown, raw = self.normalised.mean(0), self.values.mean(0)
        if len(self.axes) == 1:
            return self._sheet(shown[:, None], raw[:, None], self.axes[0], Axis("", [""]))
        if len(self.axes) == 2:
            return self._sheet(shown, raw, *self.axes)
        layers, positions, heads = self.axes
        sheets = {
            label: self._sheet(shown[..., at], raw[..., at], layers, positions) for at, label in enumerate(heads.labels)
        }
        return Pages(heads.name, sheets, title=self.title)

    def _sheet(self, shown: Tensor, raw: Tensor, rows: Axis, columns: Axis) -> Grid:
        """One table; pointing at a cell tells the metric itself."""
        what = self.metric[0] if len(set(self.metric)) == 1 else f"mean over {len(self.metric)} pairs"
        hover = [[f"{what}: {number:.4g}" for number in row] for row in raw.tolist()]
        end = max(1.0, float(shown.nan_to_num().abs().max()))
        units = "0 as corrupted, 1 as clean"
        return Grid(shown, rows, columns, self.title, units, hover=hover, limits=(-end, end), note=self.note)


def filled(values: Mapping[Cell, float], cells: list[Cell], axes: tuple[Axis, ...], default: float) -> Tensor:
    """The numbers of one pair as a tensor along `axes`: what was not patched keeps the default, what is not there is NaN."""
    grid = torch.full([len(axis) for axis in axes], torch.nan)
    layers = {layer: at for at, layer in enumerate(dict.fromkeys(cell.layer for cell in cells))}
    for cell in cells:
        where = (layers[cell.layer], *(at for at in cell[1:] if at is not None))
        grid[where] = values.get(cell, default)
    return grid


def axes_of(cells: list[Cell], positions: list[str]) -> tuple[Axis, ...]:
    """The axes that some cells lie along."""
    made = [Axis("layer", dict.fromkeys(cell.layer for cell in cells))]
    if cells[0].position is not None:
        made.append(Axis("position", positions, numbered=True))
    if cells[0].head is not None:
        made.append(Axis("head", range(1 + max(cell.head or 0 for cell in cells))))
    return tuple(made)
