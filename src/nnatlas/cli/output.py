"""Where output goes: results to stdout, progress to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from nnatlas.grid import Shown

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one interactive web page instead, self-contained.")
]

PIPED = 120
"""Columns of a table that goes to a pipe or a file."""


def console(piped: int = PIPED) -> Console:
    """The console on stdout: in colour and as wide as a terminal, or plain and `piped` columns wide elsewhere."""
    from rich.console import Console

    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = piped
    return made


def write_page(path: Path, page: str) -> None:
    """Write a web page; `InputError` where that cannot be done."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as wrong:
        raise InputError(f"cannot write {str(path)!r}: {wrong.strerror}") from None


def print_json(data: Any) -> None:
    """Print data as JSON in plain ASCII, which every terminal and locale can write."""
    print(json.dumps(data, indent=2))


def deliver(shown: Shown, data: Callable[[], Any], json: bool, html: Path | None) -> None:
    """A result as its user asked for it: `data()` as JSON, a page at `html`, or a table."""
    if json:
        print_json(data())
    elif html is not None:
        print(shown.html(html))
    else:
        console().print(shown, soft_wrap=True)


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Show on stderr what is going on, while it is; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.text import Text

    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(Text(what)):
        yield
