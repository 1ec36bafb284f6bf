"""Tables for terminals and notebooks, by rich; a leaf that everything may import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 150


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of plain text: square brackets in cells are shown, never read as markup."""
    made = Table(title=Text(title), title_justify="left", header_style="bold", expand=False)
    for column in columns:
        made.add_column(Text(column), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def text_of(shown: Table, width: int = WIDTH) -> str:
    """A table as plain text."""
    out = StringIO()
    Console(file=out, width=width, no_color=True, legacy_windows=False).print(shown)
    return out.getvalue().rstrip("\n")


def html_of(shown: Table) -> str:
    """A table as an HTML fragment with nothing from outside it."""
    heads = "".join(f"<th style='text-align:left'>{escape(str(column.header))}</th>" for column in shown.columns)
    cells = zip(*(column.cells for column in shown.columns), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in cells)
    return f"<table><caption>{escape(str(shown.title or ''))}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
