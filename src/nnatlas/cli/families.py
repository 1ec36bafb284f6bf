"""`nnatlas families`: the rows side by side, each by what sets it apart from its shape."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli.output import Json, console, print_json
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.families._row import Family

Type = Annotated[list[str] | None, typer.Argument(metavar="[TYPE]...", help="Only the families of these model types.")]


def families(types: Type = None, json: Json = False) -> None:
    """List the model families that have a row of facts.

    A family is known by the model_type of its config; one row may cover several types.  With TYPEs, those alone, and
    the cells in which each differs from the shape it starts from.
    """
    chosen = _chosen(types or [])
    if json:
        print_json([_data(family) for family in chosen])
        return
    from rich.table import Table
    from rich.text import Text

    heads = ("model_type", "shape", *(["differs in"] if types else []), "what is unusual")
    made = Table(*heads, box=None, pad_edge=False, header_style="bold", expand=True)
    for one in chosen:
        differs = [", ".join(sorted(_differs(one))) or "nothing"] if types else []
        made.add_row(*map(Text, [", ".join(one.covers), one.shape, *differs, one.summary]))
    console().print(made)


def _chosen(types: list[str]) -> list[Family]:
    from nnatlas import families as facts

    known = facts.rows()
    for name in types:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            raise InputError(f"no family covers model_type {name!r}{'; near: ' + ', '.join(near) if near else ''}")
    found = [known[name] for name in types] if types else sorted(known.values(), key=lambda family: family.covers)
    return list({family.name: family for family in found}.values())


def _differs(family: Family) -> set[str]:
    """Cells that differ from the shape's, and what else the row states for itself."""
    return {key.rpartition(".")[2] for key in family.changed} | {f"{name} blocks" for name in _own_kinds(family)}


def _own_kinds(family: Family) -> list[str]:
    """The kinds of block that the row has beyond its shape's."""
    from nnatlas.families import _shapes

    shapes = {one.name: one for one in vars(_shapes).values() if isinstance(one, type(family))}
    inherited = shapes[family.shape].kinds if family.shape in shapes else ()
    return [kind.name for kind in family.kinds if kind not in inherited]


def _data(family: Family) -> dict[str, Any]:
    return {
        "name": family.name, "covers": list(family.covers), "shape": family.shape, "changed": sorted(family.changed),
        "kinds": _own_kinds(family), "summary": family.summary,
    }  # fmt: skip
