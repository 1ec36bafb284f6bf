"""`nnatlas draft`: start a family file for a type, from what its modules do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli.output import console, progress

if TYPE_CHECKING:
    from torch import nn

    from nnatlas.guess import Draft

Type = Annotated[
    str,
    typer.Argument(
        metavar="TYPE", help="A model type of transformers (a small random model is built), a Hub id or a folder."
    ),
]


def draft(model_type: Type) -> None:
    """Draft a family file for a type, from a probe forward.

    Prints the text of the file and, as comments, what is broken under it: the parts that still need a person.  A file of
    that name in families/ registers the type.
    """
    with progress("building a small model"):
        module = _module(model_type)
    with progress("watching a forward"):
        from nnatlas.guess import draft as guessed

        row = guessed(module)
    with progress("running the laws"):
        broken = _broken(module, row)
    console().print(text_of(row, broken), markup=False, highlight=False, soft_wrap=True)


def _module(name: str) -> nn.Module:
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    from nnatlas import families, tiny
    from nnatlas.errors import InputError

    if too_old := families.lacking(name):
        raise InputError(too_old)
    if name in CONFIG_MAPPING_NAMES:
        known = families.find(name)
        return tiny.tiny_model(name, known.tiny if known else {})
    try:
        return AutoModelForCausalLM.from_pretrained(name).eval()
    except (OSError, ValueError) as why:
        raise InputError(f"{name!r} is no model type of this transformers, and cannot be loaded: {why}") from why


def _broken(module: nn.Module, row: Draft) -> list[str]:
    from nnatlas.bind import bind
    from nnatlas.check import check
    from nnatlas.errors import AtlasError
    from nnatlas.model import StandardizedTransformer

    try:
        report = check(StandardizedTransformer(bind(module, row.family())))
    except AtlasError as why:
        return [str(why)]
    return list(dict.fromkeys(f"{one.law}: {one.value}: {one.detail}" for one in report.failures))


def text_of(row: Draft, broken: list[str]) -> str:
    """The family file, as a person would start it.

    >>> print(text_of(guess.draft(module), []))
    \"\"\"TODO: what is unusual in this family, in one sentence.\"\"\"
    ...
    """
    cells = [(name, cell) for name, cell in row.cells.items()]
    shape = _shape()
    imports = sorted({shape} | ({"absent"} if "absent(" in _all(row) else set()) | ({"kind"} if row.kinds else set()))
    lines = ['"""TODO: what is unusual in this family, in one sentence."""', ""]
    lines += [f"from nnatlas.families._shapes import {', '.join(imports)}", "", f"FAMILY = {shape}.but("]
    if row.name != row.covers:
        lines.append(f'    covers="{row.covers}",')
    lines += [f"    {name}={_cell(value)}," for name, value in (*cells, *row.other.items())]
    lines += _kinds(row)
    lines += [")"]
    lines += ["", "# Broken under this draft:", *(f"#   {one}" for one in broken)] if broken else []
    return "\n".join(lines)


def _shape() -> str:
    """What family files call the shape that drafts start from."""
    from nnatlas.families._shapes import USUAL

    return USUAL.name.upper()


def _kinds(row: Draft) -> list[str]:
    if not row.kinds:
        return []
    lines = ["    kinds=("]
    for name, one in row.kinds.items():
        lines += ["        kind(", f'            "{name}",', f'            "{one.when}",']
        lines += [f"            {key}={_cell(cell)}," for key, cell in one.cells.items()]
        lines += ["        ),"]
    return [*lines, "    ),"]


def _all(row: Draft) -> str:
    return "".join(
        _cell(cell) for cells in (row.cells, *(one.cells for one in row.kinds.values())) for cell in cells.values()
    )


def _cell(value: Any) -> str:
    """A cell as it is written in a family file."""
    from nnatlas.places import Absent

    if isinstance(value, Absent):
        return f'absent("{value.reason}")'
    if isinstance(value, tuple):
        return f"({', '.join(map(_cell, value))})"
    return f'"{value}"'
