"""`nnatlas families`: the rows side by side, each by what sets it apart from its shape, searched by traits."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli.output import Json, console, print_json
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from nnatlas.families._row import Family

Type = Annotated[list[str] | None, typer.Argument(metavar="[TYPE]...", help="Only the families of these model types.")]
With = Annotated[
    str, typer.Option("--with", metavar="TRAITS", help="Only types with all of these traits, such as moe,parallel.")
]
Without = Annotated[str, typer.Option(metavar="TRAITS", help="Only types with none of these traits, such as rotary.")]
Traits = Annotated[bool, typer.Option("--traits", help="List the traits, what each means, and how many types have it.")]


def families(
    types: Type = None, has: With = "", without: Without = "", traits: Traits = False, json: Json = False
) -> None:
    """List the model families that have a row of facts.

    A family is known by the model_type of its config; one row may cover several types.  With TYPEs, those alone, with
    their traits and the cells in which each differs from the shape it starts from.  Traits are read off the rows and
    the measurements of `nnatlas check --all`.
    """
    if traits and (types or has or without):
        raise InputError("--traits lists all of them: leave TYPE, --with and --without out")
    if traits:
        _list_traits(json)
        return
    chosen = _chosen(types or [], _words(has), _words(without))
    if not chosen:
        raise InputError(
            f"no type has all of {has or 'any traits'!r} and none of {without!r}; nnatlas families --traits lists them"
        )
    if json:
        print_json([_data(family, names) for family, names in chosen])
        return
    console().print(_table(chosen, in_full=bool(types), with_traits=bool(types or has or without)))


def _words(given: str) -> list[str]:
    """`moe, no rotary` as its words."""
    return [word.strip() for word in given.split(",") if word.strip()]


def _list_traits(json: bool) -> None:
    from nnatlas.traits import TRAITS, having

    rows = [(one.key, one.name, one.meaning, len(having([one.key]))) for one in TRAITS.values()]
    if json:
        print_json([dict(zip(("key", "name", "meaning", "types"), row, strict=True)) for row in rows])
        return
    made = _empty("trait", "name", "what it says", "types")
    for row in rows:
        made.add_row(*map(str, row))
    console().print(made)


def _empty(*heads: str) -> Table:
    from rich.table import Table

    return Table(*heads, box=None, pad_edge=False, header_style="bold", expand=True)


def _table(chosen: list[tuple[Family, list[str]]], in_full: bool, with_traits: bool) -> Table:
    from rich.text import Text

    from nnatlas.traits import traits_of

    heads = (
        "model_type",
        "shape",
        *(["differs in"] if in_full else []),
        *(["traits"] if with_traits else []),
        "what is unusual",
    )
    made = _empty(*heads)
    for one, names in chosen:
        named = ", ".join(map(_named, names))
        differs = [", ".join(sorted(_differs(one))) or "nothing"] if in_full else []
        shown = [", ".join(traits_of(names[0])) or "not measured yet"] if with_traits else []
        made.add_row(*map(Text, [named, one.shape, *differs, *shown, one.summary]))
    return made


def _chosen(types: list[str], wanted: list[str], unwanted: list[str]) -> list[tuple[Family, list[str]]]:
    """Each family asked for, with those of its types that are."""
    from nnatlas import families as facts
    from nnatlas.traits import having

    known = facts.rows()
    for name in types:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            raise InputError(f"no family covers model_type {name!r}{'; near: ' + ', '.join(near) if near else ''}")
    meeting = set(having(wanted, unwanted)) if wanted or unwanted else set(known)
    rows = [known[name] for name in types] if types else sorted(known.values(), key=lambda family: family.covers)
    found = {one.name: (one, [name for name in one.covers if name in meeting]) for one in rows}
    return [(family, names) for family, names in found.values() if names]


def _named(model_type: str) -> str:
    """A type, with what it needs where the installed transformers is too old for it."""
    from nnatlas.families import SINCE, lacking

    return f"{model_type} (needs transformers {SINCE[model_type]})" if lacking(model_type) else model_type


def _differs(family: Family) -> set[str]:
    """Cells that differ from the shape's, and what else the row states for itself."""
    return {key.rpartition(".")[2] for key in family.changed} | {f"{name} blocks" for name in _own_kinds(family)}


def _own_kinds(family: Family) -> list[str]:
    """The kinds of block that the row has beyond its shape's."""
    from nnatlas.families import _shapes

    shapes = {one.name: one for one in vars(_shapes).values() if isinstance(one, type(family))}
    inherited = shapes[family.shape].kinds if family.shape in shapes else ()
    return [kind.name for kind in family.kinds if kind not in inherited]


def _data(family: Family, names: list[str]) -> dict[str, Any]:
    from nnatlas.families import lacking
    from nnatlas.traits import traits_of

    return {
        "name": family.name, "covers": names, "shape": family.shape, "changed": sorted(family.changed),
        "kinds": _own_kinds(family), "traits": {name: traits_of(name) for name in names}, "summary": family.summary,
        "lacking": {name: why for name in names if (why := lacking(name))},
    }  # fmt: skip
