"""Colour scales that colour-blind readers can read, and what a number is on them.

A number becomes a share of the scale: 0 to 1 on a sequential one, -1 to 1 on a diverging one, whose middle is zero.  The
colour is that share of the way from the paper to the scale's end, so it grows in lightness alone along one hue.  The two
ends of the diverging scale are blue and orange, which no common colour blindness confuses, and equally far from paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Scheme:
    """Colours for one ground: letters are `ink` on `paper` and `over` on the strong ends, `high` and `low`."""

    paper: Colour
    ink: Colour
    over: Colour
    high: Colour
    low: Colour
    rule: Colour

    def mixed(self, share: float) -> Colour:
        """The ground of a cell; shares below zero lead to `low`."""
        end, much = (self.high, share) if share >= 0 else (self.low, -share)
        red, green, blue = (round(a + (b - a) * much) for a, b in zip(self.paper, end, strict=True))
        return red, green, blue

    def on(self, share: float) -> Colour:
        """The colour of letters on that ground."""
        return self.over if abs(share) > STRONG else self.ink

    @property
    def variables(self) -> str:
        """The same as CSS custom properties."""
        named = ("paper", "ink", "over", "high", "low", "rule")
        return "; ".join(f"--{name}: rgb{getattr(self, name)}" for name in named)


STRONG: Final = 0.724
"""The share at which letters change sides.  All four ends reach the grey on which black and white letters are equally
readable just there, so that every cell has a contrast of at least 4.5 (WCAG 2.2, level AA)."""
LIGHT: Final = Scheme(
    paper=(255, 255, 255),
    ink=(0, 0, 0),
    over=(255, 255, 255),
    high=(130, 44, 0),
    low=(0, 68, 150),
    rule=(190, 194, 202),
)
DARK: Final = Scheme(
    paper=(20, 22, 27),
    ink=(255, 255, 255),
    over=(0, 0, 0),
    high=(225, 132, 50),
    low=(92, 157, 232),
    rule=(80, 85, 95),
)


def luminance(colour: Colour) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: Colour, other: Colour) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@dataclass(frozen=True)
class Scale:
    """The numbers at the two ends; a diverging scale has zero in its middle."""

    low: float
    high: float
    diverging: bool

    def share(self, value: float) -> float:
        """Where on the scale a number lies, cut off at its ends; what is no number lies at zero."""
        if math.isnan(value):
            return 0.0
        if self.diverging:
            return max(-1.0, min(1.0, value / self.high))
        return max(0.0, min(1.0, (value - self.low) / (self.high - self.low)))


def scale_for(values: Iterable[float], limits: tuple[float, float] | None = None) -> Scale:
    """The scale for some numbers: diverging where some lie below zero, else from zero to the largest.

    `limits` sets the ends instead; where they are opposite numbers the scale diverges.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = limits or (min(finite), max(finite))
    if low == -high if limits else low < 0:
        end = max(abs(low), abs(high)) or 1.0
        return Scale(-end, end, True)
    low = low if limits else 0.0
    return Scale(low, high if high > low else low + 1.0, False)


def decimals_for(values: Iterable[float]) -> int:
    """Decimals that show two or three figures of the largest number; none where all are whole."""
    finite = [value for value in values if math.isfinite(value)]
    largest = max(map(abs, finite), default=0.0)
    if largest == 0 or all(value == int(value) for value in finite):
        return 0
    figures = 2 if largest < 1 else 3
    return min(6, max(0, figures - math.ceil(math.log10(largest * 1.000001))))
