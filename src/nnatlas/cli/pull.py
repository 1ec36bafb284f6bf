"""`nnatlas pull`: fetch a checkpoint that nnatlas knows by name, once."""

from __future__ import annotations

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help='What to fetch, such as "smollm2".')]


def pull(name: Name) -> None:
    """Fetch a checkpoint and print the folder it is in.

    It is fetched, checked against its pinned hash and converted once; after that the folder is printed at once.
    """
    from nnatlas.pull import pull as fetch

    print(fetch(name))
