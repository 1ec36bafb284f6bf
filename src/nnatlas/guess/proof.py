"""A guessed row is worth what the laws say of it: what breaks one is left out, and where the stream itself does, all is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from nnatlas.bind import bind
from nnatlas.check import Finding, check
from nnatlas.errors import RowDoesNotFit, UnsupportedFamily
from nnatlas.guess.row import Draft
from nnatlas.model import StandardizedTransformer
from nnatlas.places import absent
from nnatlas.values import VALUES

CORE = (
    "block.layer_input",
    "block.layer_output",
    "self_attn.attention_output",
    "mlp.mlp_output",
    "logits",
    "input_ids",
)
"""Values without which there is no reading of the model."""
OF_THE_MODEL = ("batch", "whole")
"""Laws that say something of the model, however it is read."""
ROUNDS = 3


def prove(module: nn.Module, row: Draft, tokenizer: Any = None) -> tuple[StandardizedTransformer, list[Finding]]:
    """The model under the guessed row, every value proven, and what was not: left out of the row, which is changed so.

    Errors: `UnsupportedFamily`, naming the law, if the stream or what adds to it cannot be proven.
    """
    missed: list[Finding] = []
    for _ in range(ROUNDS):
        model = _bound(module, row, tokenizer)
        broken = check(model).failures
        own = [finding for finding in broken if finding.law not in OF_THE_MODEL]
        _refuse([finding for finding in own if finding.value in CORE or finding.value not in VALUES], row)
        missed += [finding for finding in broken if finding.value not in {one.value for one in missed}]
        if not own:
            return model, missed
        for finding in own:
            _leave_out(row, finding)
    _refuse(own, row)
    raise AssertionError("a law is broken, so the row was refused")


def _bound(module: nn.Module, row: Draft, tokenizer: Any) -> StandardizedTransformer:
    try:
        return StandardizedTransformer(bind(module, row.family()), tokenizer)
    except RowDoesNotFit as why:
        raise UnsupportedFamily(f"{_guessed(row)}, but the guess does not fit the model: {why}") from why


def _leave_out(row: Draft, finding: Finding) -> None:
    """Take back the guess of one value whose law does not hold, with that as its reason; the rest of the row stands."""
    host, _, name = finding.value.rpartition(".")
    if host == "linear_attn":
        row.cells["linear_attn"] = absent("its values could not be proven")
    else:
        row.cells[name] = absent(f"guessed, but not proven: the {finding.law} law does not hold ({finding.detail})")
    for kind in row.kinds.values():
        kind.cells.pop(name, None)


def _refuse(broken: Iterable[Finding], row: Draft) -> None:
    """Raise if a law is broken that the whole row stands or falls with: the stream, the chain, the readout."""
    broken = list(broken)
    if broken:
        laws = ", ".join(dict.fromkeys(finding.law for finding in broken))
        said = "\n  ".join(str(finding) for finding in broken[:5])
        raise UnsupportedFamily(
            f"{_guessed(row)}, but it cannot be proven: the {laws} law does not hold.\n  {said}\n"
            f"Hand in a row of your own with family= (docs/adding-a-family.md; `nnatlas draft {row.covers}` starts one)"
        )


def _guessed(row: Draft) -> str:
    return f"no row covers model_type {row.covers!r}; one was guessed from what its modules do"
