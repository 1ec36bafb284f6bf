"""`nnatlas find`: another library's name for a value, in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nnatlas.cli.output import Json, console, print_json

if TYPE_CHECKING:
    from rich.text import Text

    from nnatlas.kin import Kin

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from another library, such as hook_resid_mid.")]


def find(name: Name, json: Json = False) -> None:
    """Find the value that another library calls NAME.

    Knows the hook names of TransformerLens, the accessors of nnterp, the components of causalab, transformers'
    outputs and the module paths of every family; a word that is close, or part of a description, is found too.
    """
    from nnatlas import kin

    found = kin.find(name)
    if json:
        print_json([one.as_data() for one in found])
        return
    out = console()
    for one in found:
        out.print(_told(one))


def _told(one: Kin) -> Text:
    """Their name, ours as it is typed, what ours is, and what differs."""
    from rich.text import Text

    lines = [Text.assemble((one.theirs, "bold"), (f"  {one.library}", "dim")), Text(f"  {one.typed}", "green")]
    lines += [Text(f"  {said}") for said in (one.meaning, one.difference and f"({one.difference})") if said]
    return Text("\n").join(lines)
