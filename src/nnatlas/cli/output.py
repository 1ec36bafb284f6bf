"""Where output goes: results to stdout, progress to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from nnatlas.grid import Shown


def _writable(path: Path | None) -> Path | None:
    """A file that can be written, said before anything is computed.

    Raises:
        InputError: its folder is not there or takes no files, or it is a folder itself.
    """
    if path is None:
        return None
    if not path.name or path.is_dir():
        raise InputError(f"cannot write {str(path)!r}: name a file, not a folder")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"cannot write {str(path)!r}: Permission denied")
    return path


def to_file(*names: str, help: str) -> Any:  # noqa: A002  typer's own word
    """An option that names a file to write."""
    return typer.Option(*names, metavar="FILE", help=help, callback=_writable)


def from_stdin(given: str | None) -> str | None:
    """A text as it was given; `-` stands for what stdin holds."""
    return sys.stdin.read() if given == "-" else given


Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help='The text to read; "-" takes it from stdin.', callback=from_stdin)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Html = Annotated[Path | None, to_file("--html", help="Write one interactive web page instead, self-contained.")]
Png = Annotated[Path | None, to_file("--png", help="Write a picture instead; needs matplotlib.")]

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


def deliver(
    shown: Shown, data: Callable[[], Any], json: bool, html: Path | None, png: Path | None = None, below: Any = None
) -> None:
    """A result as its user asked for it: pages and pictures as files, JSON, or a table with a line or two `below` it.

    With JSON, stdout holds that alone, and files are written without a word.
    """
    written = [write(path) for path, write in ((html, shown.html), (png, shown.png)) if path is not None]
    if json:
        print_json(data())
    elif written:
        print(*written, sep="\n")
    else:
        console().print(shown, soft_wrap=True)
        if below is not None:
            console().print(below, soft_wrap=True)


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
