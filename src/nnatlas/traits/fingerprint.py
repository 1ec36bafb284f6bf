"""A row's fingerprint: what a measurement of its types was taken with, so that a changed row shows its own as stale."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from nnatlas import families
from nnatlas.families._row import Family, Kind
from nnatlas.values import VALUES


def fingerprint(family: Family) -> str:
    """Eight hex digits of everything in the row that a check depends on, and of the vocabulary; not its prose.

    >>> from nnatlas import families
    >>> fingerprint(families.find("llama")) == fingerprint(families.find("mistral"))
    True
    """
    parts = (
        family.cells, family.kinds, family.readout, family.identity, family.tiny, family.sizes, family.looped,
        family.passes, family.breaks, list(VALUES),
    )  # fmt: skip
    return hashlib.sha256(repr([_plain(part) for part in parts]).encode()).hexdigest()[:8]


def of_type(model_type: str, used: str) -> str:
    """A type's fingerprint: of the row that covers it and, where it was run under its text model's row, of that one too."""
    own = families.rows()[model_type]
    row = next((one for one in families.rows().values() if one.name == used), own)
    if row.name == own.name:
        return fingerprint(own)
    return hashlib.sha256((fingerprint(own) + fingerprint(row)).encode()).hexdigest()[:8]


def _plain(part: Any) -> Any:
    """The same data in one order, whatever the order in which it was written."""
    if isinstance(part, Mapping):
        return sorted((str(key), _plain(value)) for key, value in part.items())
    if isinstance(part, Kind):
        return (part.name, part.when, _plain(part.cells), part.identity)
    return [_plain(one) for one in part] if isinstance(part, tuple | list) else part
