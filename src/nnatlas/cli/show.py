"""`nnatlas show`: the tree of a model under its standard names."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import console
from nnatlas.errors import InputError

Part = Annotated[str, typer.Argument(metavar="[PART]", help="Only this part, such as layers.0.self_attn.")]


def show(
    model: models.Model,
    part: Part = "",
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """Print a model's tree under its standard names.

    Native and standard names stand side by side, and every value is listed with its layout.  Values that the model does
    not have are listed with the reason.  Weights are not loaded: a Hub id costs its config.
    """
    shown = _part(models.outline(model, revision, trust_remote_code), part)
    out = console()
    if out.is_terminal:
        out.print(shown)
    else:
        print(shown)  # a line for each value, for grep and diff


def _part(node: Any, path: str) -> Any:
    steps = path.replace("[", ".").replace("]", "").split(".") if path else []
    for step in steps:
        try:
            below = node[int(step)] if step.lstrip("-").isdigit() else getattr(node, "_child", _none)(step)
        except (IndexError, TypeError) as wrong:
            raise InputError(f"no part {path!r}: {wrong}") from None
        if below is None:
            near = difflib.get_close_matches(step, _names(node), 3)
            raise InputError(f"no part {path!r}: there is no module {step!r} on the way{_near(near)}")
        node = below
    return node


def _none(step: str) -> None:
    """What a list of blocks has under a name."""


def _names(node: Any) -> list[str]:
    """What may be named below a node."""
    return [name for name in dir(node) if not name.startswith("_")]


def _near(names: list[str]) -> str:
    return f"; near: {', '.join(names)}" if names else ""
