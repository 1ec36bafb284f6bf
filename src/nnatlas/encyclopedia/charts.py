"""Small charts of one number for each block: bars or dots over block numbers, plain enough to be read in print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 340, 150, 44, 22, 10
TICKS = 4
"""About how many lines an axis has."""
FAR = 20
"""From this ratio of the greatest number to the least on, an axis counts powers of ten."""


@dataclass(frozen=True, slots=True)
class Series:
    """One number for each block; None where a block has none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A titled chart; `said` reads it in one sentence.  Numbers that lie far apart are put on powers of ten."""

    title: str
    said: str
    series: tuple[Series, ...]

    @property
    def log(self) -> bool:
        """Whether the axis counts powers of ten: all numbers positive, and far apart."""
        numbers = self._numbers()
        return bool(numbers) and min(numbers) > 0 and max(numbers) / min(numbers) > FAR

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Heights and labels of the axis."""
        return [(self.y(value), short(value)) for value in self._steps()]

    def y(self, value: float) -> float:
        """The height of a value on the chart."""
        low, *_, top = self._steps()
        part = math.log(value / low) / math.log(top / low) if self.log else value / top
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - part), 1)

    def x(self, block: int) -> float:
        """The middle of a block's place."""
        count = max((len(one.values) for one in self.series), default=1)
        return round(LEFT + (WIDTH - LEFT) / count * (block + 0.5), 1)

    def _numbers(self) -> list[float]:
        return [value for one in self.series for value in one.values if value is not None]

    def _steps(self) -> list[float]:
        """The values of the axis: round ones, the last no less than the greatest number."""
        top = max(self._numbers(), default=0.0) or 1.0
        if self.log:
            first, last = math.floor(math.log10(min(self._numbers()))), math.ceil(math.log10(top))
            return [10.0**power for power in range(first, last + 1)]
        step = 10.0 ** math.floor(math.log10(top / TICKS))
        step *= next(times for times in (1, 2, 5, 10) if step * times * TICKS >= top)
        return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def short(value: float | None) -> str:
    """A number in three figures.

    >>> short(0.12345), short(1234.5), short(12.0)
    ('0.123', '1,234', '12')
    """
    if value is None:
        return ""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def extremes(series: Series) -> tuple[int, float, int, float]:
    """The block with the least value and the one with the most."""
    numbered = [(value, block) for block, value in enumerate(series.values) if value is not None]
    (low, at), (high, where) = min(numbered), max(numbered)
    return at, low, where, high


def present(values: Sequence[float | None]) -> bool:
    """Whether any block has a number."""
    return any(value is not None for value in values)
