"""`nnatlas show`: the tree of a model under its standard names."""

from __future__ import annotations

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
    for step in filter(None, path.replace("[", ".").replace("]", "").split(".")):
        try:
            node = node[int(step)] if step.lstrip("-").isdigit() else node._child(step)
        except (IndexError, TypeError) as wrong:
            raise InputError(f"no part {path!r}: {wrong}") from None
        if node is None:
            raise InputError(f"no part {path!r}: there is no module {step!r} on the way")
    return node
