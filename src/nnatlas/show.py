"""Text for terminals and notebooks, by rich; a leaf that everything may import.

What comes from models and prompts is put into `rich.text.Text` and never read as markup, and escaped in HTML, so that a
token spelled "[bold]" or "<script>" is shown as it is spelled.  The same renderable serves three readers: a terminal in
colour, a pipe or `repr` in plain text, and a notebook.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

WIDTH = 150
# Letters that Python calls printable and that show nothing: joiners, fillers, variation selectors, the empty braille cell.
UNSEEN = frozenset(
    chr(code)
    for first, last in (
        (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
        (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)  # fmt: skip
SPACE, MARKS = "·", {" ": "·", "\n": "↵", "\t": "⇥", "·": "\\xb7"}


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is, or None where it is a pipe, a file or a notebook."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def visible(text: str) -> str:
    r"""A token's text with everything in it to be seen: a space is `·`, a new line `↵`, a tab `⇥`, the rest is escaped.

    A combining mark that has no letter before it stands on a dotted circle.

    >>> visible(" Paris\n\x1b[31m")
    '·Paris↵\\x1b[31m'
    """
    base = "◌" if text and unicodedata.combining(text[0]) and text[0] not in UNSEEN else ""
    return base + "".join(MARKS.get(letter) or _seen(letter) for letter in text)


def readable(text: str) -> str:
    r"""A text to be read, spaces and new lines as they are; all else that cannot be seen, or moves what can, is escaped.

    >>> readable("two\nlines\u202e")
    'two\nlines\\u202e'
    """
    return "".join(letter if letter in " \n" else _seen(letter) for letter in text)


def _seen(letter: str) -> str:
    """A letter, or how it is written where it cannot be seen."""
    if letter.isprintable() and letter not in UNSEEN:
        return letter
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
