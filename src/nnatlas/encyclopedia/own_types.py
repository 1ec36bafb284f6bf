"""Measuring the types that nnatlas defines itself, on the checkpoint that comes with it: `data/own_types.json`.

The sweep over all types builds random models by transformers' own names; these types have none there.
"""

from __future__ import annotations

from typing import Any

from nnatlas import families
from nnatlas.check import check
from nnatlas.check.structure import structure
from nnatlas.encyclopedia.behaviour import sample
from nnatlas.traits.fingerprint import of_type
from nnatlas.traits.measured import from_reports, to_text


def own_types() -> tuple[str, ...]:
    """The types that transformers does not bring."""
    return tuple(sorted(name for name, row in families.rows().items() if row.defined_in))


def measure() -> str:
    """Every own type under its default attention and under eager, in the form of `support.json`."""
    import torch
    import transformers

    versions = {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
    return to_text(from_reports({name: _reports(name) for name in own_types()}, versions))


def _reports(model_type: str) -> dict[str, Any]:
    models = [sample(model_type, attn_implementation=name) for name in ("sdpa", "eager")]
    found: dict[str, Any] = {}
    for model in models:
        report = check(model)
        found[report.subject["attention"] or "own"] = report.facts()
    made_of = {"structure": structure(models[-1]), "row": of_type(model_type, models[-1]._owner.family.name)}
    found[next(iter(found))] |= made_of
    return found
