"""Residual: the family's identity, at every block of the model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

from nnatlas.bind.tree import Host
from nnatlas.check.at import At
from nnatlas.check.findings import BROKEN, Finding
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial
from nnatlas.places import Absent


def identity_of(block: Host) -> str | Absent:
    """The identity of a block: its last kind that states one, else the family's."""
    own = {kind.name: kind.identity for kind in block.owner.family.kinds if kind.identity is not None}
    stated = [own[name] for name in block.kinds if name in own]
    return stated[-1] if stated else block.owner.family.identity


@law("residual")
def what_enters_and_what_is_added_make_what_leaves(trial: Trial) -> Iterator[Finding]:
    for block in trial.owner.blocks:
        identity = identity_of(block)
        if isinstance(identity, Absent):
            yield trial.excepted("residual", "block.layer_output", block.name, identity.reason)
        else:
            yield _tested(trial, At(trial, block), identity)


def _tested(trial: Trial, at: At, identity: str) -> Finding:
    left, _, right = (side.strip() for side in identity.partition("="))
    terms = {name.strip(): at(name.strip()) for name in left.split("+")}
    got, missing = at(right), [name for name, value in terms.items() if value is None]
    if missing or got is None:
        what = ", ".join(missing or [right])
        return Finding("residual", "block.layer_output", at.block.name, BROKEN, f"{identity}: no {what} here")
    total = reduce(add, terms.values())
    return trial.equal("residual", "block.layer_output", at.block.name, identity, total, got)
