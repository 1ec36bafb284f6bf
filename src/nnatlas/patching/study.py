"""A study: what every kind of patching shares, from prompts and names to a result.

Each kind hands in one function, from a situation and a measure to a number for each cell; a study runs it on every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from nnatlas.errors import InputError
from nnatlas.patching.cells import Cell, Patch, Swept, swept
from nnatlas.patching.metrics import Bound, Ends, Judge, Measure, Metric, bound
from nnatlas.patching.pairs import Pairs, pairs_of
from nnatlas.patching.result import Patching, axes_of, filled
from nnatlas.patching.situation import Situation
from nnatlas.patching.stack import Stack

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

DIRECTIONS = ("denoise", "noise")
TOGETHER = 1024
"""Tokens of base prompts that are swept together: pairs of one length share forwards."""
Asked = str | Metric | Measure
"""What `metric=` takes: a name, one of the metrics with its answers, or a function of logits."""


class Found(NamedTuple):
    """What was found on some pairs: a number for each patch (other places are the base run's), and how."""

    numbers: Mapping[Patch, float]
    way: str
    note: str = ""


Sweep = Callable[[Situation, Judge], Found]


class Swung(NamedTuple):
    """One pair, swept: its number at each place, and those of its two prompts as they are."""

    grid: torch.Tensor
    cells: list[Cell]
    clean: float
    corrupted: float
    words: str


@dataclass
class Study:
    """Prompts, a value, a metric and a direction, checked and ready to be swept."""

    model: StandardizedTransformer
    pairs: Pairs
    swept: Swept
    metric: Asked
    direction: str
    title: str

    def run(self, sweep: Sweep) -> Patching:
        """Sweep all pairs, those of one length together, and put the numbers into one result."""
        done: dict[int, Swung] = {}
        stack = Stack(self.model, self.swept)
        for group in self.pairs.groups(TOGETHER):
            found, swung = self._group(stack, group, sweep)
            done |= zip(group, swung, strict=True)
        ordered = [done[pair] for pair in range(len(self.pairs))]
        return Patching(
            values=torch.stack([one.grid for one in ordered]),
            axes=axes_of(ordered[0].cells, self.pairs.labels()),
            clean=torch.tensor([one.clean for one in ordered]),
            corrupted=torch.tensor([one.corrupted for one in ordered]),
            metric=tuple(one.words for one in ordered),
            title=self.title,
            way=found.way,
            note=found.note,
        )

    def _group(self, stack: Stack, group: Sequence[int], sweep: Sweep) -> tuple[Found, list[Swung]]:
        """Sweep pairs of one length."""
        clean, corrupted = (
            torch.stack([ids[pair] for pair in group]) for ids in (self.pairs.clean, self.pairs.corrupted)
        )
        denoising = self.direction == DIRECTIONS[0]
        base, source = (corrupted, clean) if denoising else (clean, corrupted)
        situation = Situation(stack, base, source, [self.pairs.first_difference(pair) for pair in group])
        runs = (situation.source, situation.base) if denoising else (situation.base, situation.source)
        logits = [torch.stack([run.logits[at] for run in runs]) for at in range(len(group))]
        bounds = [self._bound(both, pair) for both, pair in zip(logits, group, strict=True)]
        ends = [_each(one.measure(both), one.words).tolist() for one, both in zip(bounds, logits, strict=True)]
        found = sweep(situation, Judge([one.measure for one in bounds]))
        numbers = [
            {patch.cell: number for patch, number in found.numbers.items() if patch.pair == at}
            for at in range(len(group))
        ]
        return found, [
            self._swung(situation, *one) for one in zip(range(len(group)), bounds, ends, numbers, strict=True)
        ]

    def _bound(self, ends: torch.Tensor, pair: int) -> Bound:
        return bound(self.metric, Ends(self.model.tokenizer, ends[0], ends[1], pair, len(self.pairs)))

    def _swung(
        self, situation: Situation, at: int, metric: Bound, ends: list[float], numbers: Mapping[Cell, float]
    ) -> Swung:
        clean, corrupted = ends
        cells = list(self.swept.cells({layer: value[at] for layer, value in situation.source.values.items()}))
        default = corrupted if self.direction == DIRECTIONS[0] else clean
        grid = filled(numbers, cells, axes_of(cells, [""] * situation.length), default)
        return Swung(grid, cells, clean, corrupted, metric.words)


def _each(judged: Any, words: str) -> torch.Tensor:
    """What a metric says of the two runs, if it is a number for each."""
    if isinstance(judged, torch.Tensor) and judged.shape == (2,):
        return judged
    said = list(judged.shape) if isinstance(judged, torch.Tensor) else f"a {type(judged).__name__}"
    raise InputError(
        f"the metric ({words}) gives {said} for 2 rows: it makes of logits [rows, vocab_size] numbers [rows]"
    )


def study(
    model: StandardizedTransformer,
    prompts: tuple[Any, Any],
    value: str,
    over: str | Sequence[str],
    metric: Asked,
    direction: str,
    kind: str = "activation patching",
) -> Study:
    """Check everything that can be checked before a forward is run."""
    if direction not in DIRECTIONS:
        raise InputError(f"direction={direction!r}: it is 'denoise', clean values into the corrupted run, or 'noise'")
    chosen = swept(model, value, over)
    pairs = pairs_of(model, *prompts)
    if "position" in chosen.over:
        pairs.refuse_lengths()
    return Study(model, pairs, chosen, metric, direction, f"{kind}: {value}, {direction}")
