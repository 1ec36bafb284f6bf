"""Bars and one-line notices on stderr, so that stdout stays clean for a command's own output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def notice(text: str) -> None:
    """Print one line on stderr, without markup."""
    Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)


@contextmanager
def bar(what: str, total: int, *, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; yields a function that takes how much is done by now."""
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn(compact=True))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)

        def done(amount: int) -> None:
            progress.update(task, completed=min(amount, total))

        yield done
