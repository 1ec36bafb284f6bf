"""A study: what every kind of patching shares, from prompts and names to a result.

Each kind hands in one function, from a situation and a measure to a number for each cell; a study runs it on every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from nnatlas.errors import InputError
from nnatlas.patching.cells import Cell, Swept, swept
from nnatlas.patching.metrics import Ends, Measure, Metric, bound
from nnatlas.patching.pairs import Pairs, pairs_of
from nnatlas.patching.result import Patching, axes_of, filled
from nnatlas.patching.situation import Situation, Source

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

DIRECTIONS = ("denoise", "noise")
Judge = str | Metric | Measure
"""What `metric=` takes: a name, one of the metrics with its answers, or a function of logits."""


class Found(NamedTuple):
    """What was found on one pair: a number for each cell (others are the base run's), and how."""

    numbers: Mapping[Cell, float]
    way: str
    note: str = ""


Sweep = Callable[[Situation, Measure], Found]


@dataclass
class Study:
    """Prompts, a value, a metric and a direction, checked and ready to be swept."""

    model: StandardizedTransformer
    pairs: Pairs
    swept: Swept
    metric: Judge
    direction: str
    title: str

    def run(self, sweep: Sweep) -> Patching:
        """Sweep every pair, and put the numbers into one result."""
        done = [self._pair(pair, sweep) for pair in range(len(self.pairs))]
        first = done[0]
        return Patching(
            values=torch.stack([one.grid for one in done]),
            axes=axes_of(first.cells, self.pairs.labels()),
            clean=torch.tensor([one.clean for one in done]),
            corrupted=torch.tensor([one.corrupted for one in done]),
            metric=tuple(one.words for one in done),
            title=self.title,
            way=first.found.way,
            note=first.found.note,
        )

    def _pair(self, pair: int, sweep: Sweep) -> _Done:
        clean, corrupted = self.pairs.clean[pair], self.pairs.corrupted[pair]
        denoising = self.direction == DIRECTIONS[0]
        base, other = (corrupted, clean) if denoising else (clean, corrupted)
        source = Source(self.model, other, self.swept)
        situation = Situation(self.model, self.swept, base, source, self.pairs.first_difference(pair))
        both = (source.logits, situation.logits) if denoising else (situation.logits, source.logits)
        words, measure = bound(self.metric, Ends(self.model.tokenizer, both[0], both[1], pair, len(self.pairs)))
        ends = _each(measure(torch.stack(both)), words).tolist()
        found = sweep(situation, measure)
        cells = list(self.swept.cells(source.values))
        grid = filled(found.numbers, cells, axes_of(cells, self.pairs.labels()), ends[denoising])
        return _Done(grid, cells, ends[0], ends[1], words, found)


def _each(judged: Any, words: str) -> torch.Tensor:
    """What a metric says of the two runs, if it is a number for each."""
    if isinstance(judged, torch.Tensor) and judged.shape == (2,):
        return judged
    said = list(judged.shape) if isinstance(judged, torch.Tensor) else f"a {type(judged).__name__}"
    raise InputError(
        f"the metric ({words}) gives {said} for 2 rows: it makes of logits [rows, vocab_size] numbers [rows]"
    )


class _Done(NamedTuple):
    """One pair, swept."""

    grid: torch.Tensor
    cells: list[Cell]
    clean: float
    corrupted: float
    words: str
    found: Found


def study(
    model: StandardizedTransformer,
    prompts: tuple[Any, Any],
    value: str,
    over: str | Sequence[str],
    metric: Judge,
    direction: str,
    kind: str = "activation patching",
) -> Study:
    """Check everything that can be checked before a forward is run."""
    if direction not in DIRECTIONS:
        raise InputError(f"direction={direction!r}: it is 'denoise', clean values into the corrupted run, or 'noise'")
    chosen = swept(model, value, over)
    return Study(model, pairs_of(model, *prompts), chosen, metric, direction, f"{kind}: {value}, {direction}")
