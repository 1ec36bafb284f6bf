"""Text for terminals and notebooks, by rich; a leaf that everything may import.

What comes from models and prompts is put into `rich.text.Text` and never read as markup, and escaped in HTML, so that a
token spelled "[bold]" or "<script>" is shown as it is spelled.  The same renderable serves three readers: a terminal in
colour, a pipe or `repr` in plain text, and a notebook.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

WIDTH = 150
SPACE, MARKS = "·", {" ": "·", "\n": "↵", "\t": "⇥", "·": "\\xb7"}


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is, or None where it is a pipe, a file or a notebook."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def visible(text: str) -> str:
    r"""A token's text with everything in it to be seen: a space is `·`, a new line `↵`, a tab `⇥`, the rest is escaped.

    >>> visible(" Paris\n\x1b[31m")
    '·Paris↵\\x1b[31m'
    """
    return "".join(MARKS.get(letter) or (letter if letter.isprintable() else _escaped(letter)) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of plain text: square brackets in cells are shown, never read as markup."""
    made = Table(title=Text(title), title_justify="left", header_style="bold", expand=False)
    for column in columns:
        made.add_column(Text(column), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def text_of(shown: RenderableType, width: int | None = None) -> str:
    """Anything rich can show as plain text, `width` columns wide: the terminal's, or WIDTH where there is none."""
    out = StringIO()
    width = width or terminal_width() or WIDTH
    Console(file=out, width=width, no_color=True, color_system=None, legacy_windows=False).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def html_of(shown: Table) -> str:
    """A table as an HTML fragment with nothing from outside it."""
    heads = "".join(f"<th style='text-align:left'>{escape(str(column.header))}</th>" for column in shown.columns)
    cells = zip(*(column.cells for column in shown.columns), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in cells)
    caption = f"<caption>{escape(str(shown.title or ''))}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
