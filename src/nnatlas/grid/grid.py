"""Grid: one table of numbers with named axes.  Pages: several of them along a further axis, each with its own labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nnatlas.errors import InputError, LayoutError
from nnatlas.grid.axis import Axis
from nnatlas.grid.scale import Scale, decimals_for, scale_for
from nnatlas.grid.shown import Shown
from nnatlas.show import readable, visible

Cells = Sequence[Sequence[Any]]


@dataclass(frozen=True, repr=False)
class Grid(Shown):
    """Numbers in rows and columns, with what each row, column and cell is.

    Args:
        values: `rows columns`, nested sequences of numbers or a tensor or array of any dtype; NaN is an empty cell.
        rows, columns: the two axes.
        title: what the numbers are; units: of what, such as "nats" or "probability".
        text: what is written in each cell instead of its number, such as a token's text, `rows columns`.
        hover: more to say of each cell when a reader points at it, `rows columns`; lines are kept.
        limits: the numbers at the two ends of the colour scale, instead of those that occur; opposite ones, such as
            `(-1, 1)`, make a scale that diverges from zero.
        note: said below the table.

    Raises:
        LayoutError: the numbers, texts or hovers are not `rows columns`.

    Example:
        >>> grid = Grid([[0.1, 0.7]], Axis("layer", ["0"]), Axis("position", ["The", " cat"], numbered=True))
        >>> print(grid.words(0, 1))
        layer 0, position 1 ·cat: 0.7
    """

    values: Any
    rows: Axis
    columns: Axis
    title: str = ""
    units: str = ""
    text: Cells | None = None
    hover: Cells | None = None
    limits: tuple[float, float] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("values", "text", "hover"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, self._fitting(name, given))

    def _fitting(self, name: str, given: Any) -> list[list[Any]]:
        """Nested lists of numbers or texts, if they are as many as the labels."""
        kind = float if name == "values" else str
        nested = given.tolist() if hasattr(given, "tolist") else given
        try:
            cells = [[kind(cell) for cell in row] for row in nested]
        except TypeError as wrong:
            raise LayoutError(f"{name} of a grid are `rows columns`: {wrong}") from None
        sizes, wanted = (len(cells), {len(row) for row in cells}), (len(self.rows), {len(self.columns)})
        if sizes[0] != wanted[0] or sizes[1] - wanted[1]:
            widths = " or ".join(map(str, sorted(sizes[1])))
            raise LayoutError(
                f"{name} are {sizes[0]} x {widths}, the labels {len(self.rows)} ({self.rows.name}) "
                f"x {len(self.columns)} ({self.columns.name})"
            )
        return cells

    def grid(self) -> Grid:
        return self

    @property
    def sheets(self) -> tuple[Axis, tuple[Grid, ...]]:
        return Axis("page", [self.title]), (self,)

    @cached_property
    def scale(self) -> Scale:
        """Where each number lies between the ends of the colour scale."""
        return scale_for((value for row in self.values for value in row), self.limits)

    @cached_property
    def decimals(self) -> int:
        """Decimals with which numbers are written in cells."""
        return decimals_for(value for row in self.values for value in row)

    def cell(self, row: int, column: int) -> str:
        """What is written in a cell: its text, or its number; nothing where there is none."""
        if self.text is not None:
            return str(self.text[row][column])
        value = self.values[row][column]
        return "" if value != value else f"{value:z.{self.decimals}f}"

    def words(self, row: int, column: int) -> str:
        """A cell in words: where it is, its text, its number with its units, and what its hover says."""
        where = f"{self.rows.words(row)}, {self.columns.words(column)}"
        text = f" {visible(self.text[row][column])}" if self.text is not None else ""
        value = self.values[row][column]
        number = "nothing" if value != value else f"{value:.4g}"
        more = f"\n{readable(self.hover[row][column])}" if self.hover is not None and self.hover[row][column] else ""
        return f"{where}:{text} {number} {readable(self.units)}".rstrip() + more


@dataclass(frozen=True, repr=False)
class Pages(Shown):
    """Grids along a further axis, such as heads or prompts: `pages["5.3"]` is one; their colours share one scale.

    >>> grid = Grid([[0.1, 0.7]], Axis("layer", ["0"]), Axis("position", ["The", " cat"], numbered=True))
    >>> pages = Pages("head", {"0.0": grid, "0.1": grid}, title="attention")
    """

    name: str
    grids: Mapping[str, Grid]
    title: str = ""
    note: str = ""
    _axis: Axis = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not self.grids:
            raise InputError(f"no {self.name} to show")
        object.__setattr__(self, "_axis", Axis(self.name, self.grids))
        limits = self._limits()
        object.__setattr__(self, "grids", {name: replace(one, limits=limits) for name, one in self.grids.items()})

    @classmethod
    def of(cls, values: Any, pages: Axis, rows: Axis, columns: Axis, title: str = "", **described: Any) -> Pages:
        """One grid for each entry of `values`, `pages rows columns`, all with the same labels."""
        if len(values) != len(pages):
            raise LayoutError(f"values are {len(values)} pages, the labels {len(pages)} ({pages.name})")
        made = (Grid(one, rows, columns, **described) for one in values)
        return cls(pages.name, dict(zip(pages.labels, made, strict=True)), title)

    def _limits(self) -> tuple[float, float]:
        scales = [one.scale for one in self.grids.values()]
        low, high = min(scale.low for scale in scales), max(scale.high for scale in scales)
        end = max(abs(low), abs(high))
        return (-end, end) if any(scale.diverging for scale in scales) else (low, high)

    def grid(self) -> Pages:
        return self

    @property
    def sheets(self) -> tuple[Axis, tuple[Grid, ...]]:
        return self._axis, tuple(self.grids.values())

    def __getitem__(self, name: str) -> Grid:
        if name not in self.grids:
            raise InputError(f"no {self.name} {name!r}; there are {', '.join(self.grids)}")
        return replace(self.grids[name], title=f"{self.title}: {self.name} {name}".removeprefix(": "))

    def __iter__(self) -> Iterator[str]:
        return iter(self.grids)

    def __len__(self) -> int:
        return len(self.grids)
