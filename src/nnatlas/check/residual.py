"""Residual: the family's identity, at every block of the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

from nnatlas import places
from nnatlas.check.at import At
from nnatlas.check.findings import BROKEN, Finding
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial, identity_of
from nnatlas.places import Absent


@law("residual")
def what_enters_and_what_is_added_make_what_leaves(trial: Trial) -> Iterator[Finding]:
    for block in trial.owner.blocks:
        identity = identity_of(block)
        if isinstance(identity, Absent):
            yield trial.excepted("residual", "block.layer_output", block.name, identity.reason)
        else:
            yield _tested(trial, At(trial, block), identity)


def _tested(trial: Trial, at: At, identity: str) -> Finding:
    terms = places.identity(identity)
    *parts, got = (at.term(term) for term in terms)
    missing = [term.value or str(term.place) for term, part in zip(terms, (*parts, got), strict=True) if part is None]
    if missing:
        said = f"{identity}: no {', '.join(missing)} here"
        return Finding("residual", "block.layer_output", at.block.name, BROKEN, said)
    return trial.equal("residual", "block.layer_output", at.block.name, identity, reduce(add, parts), got)
