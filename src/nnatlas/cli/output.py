"""Where output goes: results to stdout, progress to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]

PIPED = 120
"""Columns of a table that goes to a pipe or a file."""


def console(piped: int = PIPED) -> Console:
    """The console on stdout: in colour and as wide as a terminal, or plain and `piped` columns wide elsewhere."""
    from rich.console import Console

    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = piped
    return made


def print_json(data: Any) -> None:
    """Print data as JSON in plain ASCII, which every terminal and locale can write."""
    print(json.dumps(data, indent=2))


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
