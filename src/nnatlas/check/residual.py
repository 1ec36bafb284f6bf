"""Residual: the family's identity, at every block of the model.

This law finds most wrong rows: a contribution read before its norm, a factor that is not stated, a stream that is not one.
Where one part is off by a factor alone, the finding names that part and the factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add

from torch import Tensor

from nnatlas import places
from nnatlas.check.at import At
from nnatlas.check.findings import BROKEN, Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial
from nnatlas.model.stream import identity_of
from nnatlas.places import Absent


@law("residual")
def what_enters_and_what_is_added_make_what_leaves(trial: Trial) -> Iterator[Finding]:
    """The row's identity (its kind's, where that states one), tested at every block, not only at the chosen ones."""
    for block in trial.owner.blocks:
        identity = identity_of(block)
        if isinstance(identity, Absent):
            yield trial.excepted("residual", "block.layer_output", block.name, identity.reason)
        else:
            yield _tested(trial, At(trial, block), identity)


def _tested(trial: Trial, at: At, identity: str) -> Finding:
    """The finding at one block."""
    terms = places.identity(identity)
    found = [at.term(term) for term in terms]
    missing = [term.value or str(term.place) for term, part in zip(terms, found, strict=True) if part is None]
    if missing:
        said = f"{identity}: no {', '.join(missing)} here"
        return Finding("residual", "block.layer_output", at.block.name, BROKEN, said)
    *parts, got = (part for part in found if part is not None)
    total = reduce(add, parts)
    finding = trial.equal("residual", "block.layer_output", at.block.name, identity, total, got)
    values = {term.value: part for term, part in zip(terms[1:], parts[1:], strict=False) if term.value}
    return _blamed(at, finding, values, got - total) if finding.broken and total.shape == got.shape else finding


def _blamed(at: At, finding: Finding, added: dict[str, Tensor], lacking: Tensor) -> Finding:
    """The same, naming the part that would make the sum right by a factor alone, if there is one."""
    for name, part in added.items():
        host, needed = at.host(name), (part + lacking).double()
        factor = float((needed * part).sum() / part.double().square().sum().clamp(min=1e-30))
        if host is not None and apart(factor * part, needed) < 10 * at.trial.tolerance:
            said = f"{finding.detail}; it would hold with {factor:.4g} times {name}"
            return replace(finding, value=host.values[name.rpartition(".")[2]].key, detail=said)
    return finding
