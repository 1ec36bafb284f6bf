"""Timing two or three ways of doing one thing side by side.

The ways take turns in every round, so that whatever else the machine does falls on all of them alike; the ratio is the
median over rounds of the ratios within a round.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Way = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table: a measured ratio (or number) next to what it may be at most."""

    work: str
    ours: str
    other: str
    ratio: float
    budget: float | None = None
    note: str = ""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        """Whether the budget holds (true where there is none)."""
        if self.budget is None:
            return True
        return self.ratio >= self.budget if self.at_least else self.ratio <= self.budget


def timed(way: Way) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def side_by_side(*ways: Way, rounds: int = 60, warm: int = 3) -> list[list[float]]:
    """Seconds of every way in every round; the order of the ways turns from round to round."""
    for _ in range(warm):
        for way in ways:
            way()
    seconds: list[list[float]] = [[] for _ in ways]
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            for step in range(len(ways)):
                at = (round_ + step) % len(ways)
                seconds[at].append(timed(ways[at]))
    finally:
        gc.enable()
    return seconds


def ratio(ours: list[float], other: list[float]) -> float:
    """Median over rounds of ours / other."""
    return statistics.median(mine / theirs for mine, theirs in zip(ours, other, strict=True))


def shown(seconds: list[float]) -> str:
    """A median time, in the unit that reads well."""
    middle = statistics.median(seconds)
    return f"{middle * 1e3:.2f} ms" if middle < 1 else f"{middle:.2f} s"


def compare(work: str, ours: Way, other: Way, budget: float | None, note: str = "", rounds: int = 60) -> Row:
    """Our way against another, with its budget."""
    mine, theirs = side_by_side(ours, other, rounds=rounds)
    return Row(work, shown(mine), shown(theirs), ratio(mine, theirs), budget, note)
