"""A grid in a terminal: bands of columns as wide as the terminal, like the lines of a long text.

A cell says its number or text and is shaded by it.  A terminal shows a few pages, and says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from nnatlas.grid.grid import Grid, Pages
from nnatlas.grid.scale import DARK, Colour
from nnatlas.show import readable, visible

WIDEST, PAGES = 14, 4
"""Columns of a cell at most; pages shown."""


def tables(shown: Grid | Pages, width: int) -> Iterator[Text]:
    """The lines of a grid, page after page."""
    axis, sheets = shown.sheets
    if shown.title:
        yield Text(readable(shown.title + _units(sheets[0])), style="bold")
    for at, sheet in enumerate(sheets[:PAGES]):
        if isinstance(shown, Pages):
            yield Text(axis.words(at), style="bold")
        yield from _bands(sheet, width)
    if len(sheets) > PAGES:
        yield Text(f"and {len(sheets) - PAGES} more: pages[{axis.labels[PAGES]!r}] shows one, .html(path) all", "dim")
    for note in dict.fromkeys(one.note for one in (shown, *sheets) if one.note):
        yield Text(readable(note), style="yellow")


def _units(sheet: Grid) -> str:
    return f" ({sheet.units})" if sheet.units else ""


def _bands(sheet: Grid, width: int) -> Iterator[Text]:
    margin = max(map(cell_len, [*sheet.rows.shown, readable(sheet.rows.name)])) + 1
    cell = _cell_width(sheet, width - margin)
    count = max(1, (width - margin) // cell)
    for start in range(0, len(sheet.columns), count):
        band = range(start, min(start + count, len(sheet.columns)))
        yield _heads(sheet, band, margin, cell)
        for row in range(len(sheet.rows)):
            yield _line(sheet, row, band, margin, cell)
        yield Text()


def _cell_width(sheet: Grid, room: int) -> int:
    """Columns of a cell, the gap after it included: as its longest text needs, within reason."""
    cells = (sheet.cell(row, column) for row in range(len(sheet.rows)) for column in range(len(sheet.columns)))
    longest = max((cell_len(visible(text)) for text in cells), default=1)
    labels = max(map(cell_len, sheet.columns.shown), default=1)
    cut = max(6, room // max(1, len(sheet.columns)) - 1)  # headings give way first, where there are many
    return max(2, min(max(longest, min(cut, labels)) + 1, WIDEST, room))


def _heads(sheet: Grid, band: range, margin: int, cell: int) -> Text:
    made = Text(set_cell_size(readable(sheet.rows.name), margin), style="dim", no_wrap=True)
    for column in band:
        made.append(fit(sheet.columns.shown[column], cell - 1) + " ", Style(bold=True, dim=False))
    return made


def _line(sheet: Grid, row: int, band: range, margin: int, cell: int) -> Text:
    label = sheet.rows.shown[row]
    made = Text(" " * (margin - 1 - cell_len(label)) + label + " ", style="dim", no_wrap=True)
    for column in band:
        share = sheet.scale.share(sheet.values[row][column])
        style = Style(color=rgb(DARK.on(share)), bgcolor=rgb(DARK.mixed(share)), dim=False)
        made.append(fit(visible(sheet.cell(row, column)), cell - 1), style)
        made.append(" ")
    return made


def rgb(colour: Colour) -> str:
    """A colour as rich writes it."""
    return "rgb({},{},{})".format(*colour)


def fit(text: str, width: int) -> str:
    """Cut or filled to a number of columns; East Asian letters take two."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)
