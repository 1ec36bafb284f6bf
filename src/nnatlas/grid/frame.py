"""A grid as a DataFrame in long form: one row a cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nnatlas.grid.axis import Axis
from nnatlas.grid.grid import Grid, Pages


def frame(shown: Grid | Pages) -> Any:
    """A row for each cell that is not empty.

    An axis gives a column under its own name: labels, as numbers where all of them are; a numbered axis gives the
    number, and the label under `<axis>_label`.  `value` is the cell's number, `text` its text where it has one.
    """
    axis, sheets = shown.sheets
    records = [
        (_place(axis, at) if isinstance(shown, Pages) else {}) | record
        for at, sheet in enumerate(sheets)
        for record in _records(sheet)
    ]
    return pd.DataFrame(records)


def _records(sheet: Grid) -> Iterator[dict[str, Any]]:
    for row, cells in enumerate(sheet.values):
        for column, value in enumerate(cells):
            if value == value:  # NaN is nothing
                where = _place(sheet.rows, row) | _place(sheet.columns, column)
                yield where | {"value": value} | ({} if sheet.text is None else {"text": sheet.text[row][column]})


def _place(axis: Axis, at: int) -> dict[str, Any]:
    label = axis.labels[at]
    if axis.numbered:
        return {axis.name: at, f"{axis.name}_label": label}
    return {axis.name: int(label) if all(one.isdecimal() for one in axis.labels) else label}
