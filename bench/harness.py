"""Timing two or three ways of doing one thing side by side.

The ways take turns in every round, so that whatever else the machine does falls on all of them alike; the ratio is the
median over rounds of the ratios within a round.  A forward of 300 ms is itself repeated to a few percent only, so a ratio
carries the interval that the true median lies in with 95%, and a budget counts as broken when all of that is beyond it.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Way = Callable[[], object]


class Ratio(float):
    """A median ratio, with the interval that it is known to."""

    low: float
    high: float

    def __new__(cls, middle: float, low: float, high: float) -> Ratio:
        found = super().__new__(cls, middle)
        found.low, found.high = low, high
        return found


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
    def verdict(self) -> str:
        """Nothing where the budget holds or there is none; else whether it is broken, or cannot be told from kept."""
        if self.budget is None or (self.ratio >= self.budget if self.at_least else self.ratio <= self.budget):
            return ""
        best = getattr(self.ratio, "high" if self.at_least else "low", self.ratio)
        return "within the noise" if (best >= self.budget if self.at_least else best <= self.budget) else "BROKEN"


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


def ratio(ours: list[float], other: list[float]) -> Ratio:
    """Median over rounds of ours / other, between the two order statistics that hold the true one with 95%."""
    found = sorted(mine / theirs for mine, theirs in zip(ours, other, strict=True))
    margin = 0.98 * len(found) ** 0.5  # half of 1.96 standard deviations of a fair coin thrown that often
    first, last = math.floor(len(found) / 2 - margin), math.ceil(len(found) / 2 + margin)
    return Ratio(statistics.median(found), found[max(first, 0)], found[min(last, len(found) - 1)])


def shown(seconds: list[float]) -> str:
    """A median time, in the unit that reads well."""
    middle = statistics.median(seconds)
    return f"{middle * 1e3:.2f} ms" if middle < 1 else f"{middle:.2f} s"


def compare(work: str, ours: Way, other: Way, budget: float | None, note: str = "", rounds: int = 60) -> Row:
    """Our way against another, with its budget."""
    mine, theirs = side_by_side(ours, other, rounds=rounds)
    return Row(work, shown(mine), shown(theirs), ratio(mine, theirs), budget, note)
