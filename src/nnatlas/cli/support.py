"""`nnatlas support`: which values a model serves, where they are read, and why the others are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnatlas.cli import models
from nnatlas.cli.output import Json, console, print_json

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def support(
    model: models.Model,
    json: Json = False,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """List a model's values, and why some are absent.

    Each with its layout, where it is read, and the reason wherever it is not there.  This is a prediction from facts
    and config; `nnatlas check MODEL` proves it.  Weights are not loaded.
    """
    outline = models.outline(model, revision, trust_remote_code)
    if json:
        print_json(_data(model, outline))
    else:
        console(piped=150).print(outline.support())


def _data(name: str, outline: StandardizedTransformer) -> dict[str, Any]:
    rows = outline.support().rows
    return {
        "model": name,
        "family": outline.family.name,
        "layers": outline.num_layers,
        "values": {
            key: {
                "layout": row.layout.name,
                "axes": list(row.layout.axes),
                "meaning": row.value.doc,
                "read_at": None if row.nowhere else row.place,
                "served": not row.nowhere,
                "absent": dict(row.missing),
                "note": row.note,
                "read_only": row.value.read_only,
            }
            for key, row in rows.items()
        },
    }
