"""The measured status of a value on a type: can it be read, written, and does it have a gradient.

Read off the kept measurement: a law that holds holds for every value served, but for the exceptions that the row declares,
the failures that were found, and what takes no edit or has no gradient by its nature (the outline's `plain`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nnatlas.encyclopedia.outline import Outline
from nnatlas.traits import Measurement
from nnatlas.values import RARE, VALUES

YES, NO, EXCEPTED, BROKEN, UNSEEN = "yes", "no", "excepted", "broken", "unseen"
LAWS: Final = {"read": "shape", "write": "causal", "gradient": "gradient"}
"""The law that measures each."""
_BY_NATURE: Final = {
    "read": (),
    "write": ("derived", "read only"),
    "gradient": ("derived", "read only", "whole numbers"),
}


@dataclass(frozen=True, slots=True)
class Status:
    """One answer: `mark` is one of yes, no, excepted, broken, unseen; `why` says more."""

    what: str
    mark: str
    why: str


def statuses(key: str, measured: Measurement | None, outline: Outline) -> tuple[Status, ...]:
    """Read, write and gradient of one value."""
    return tuple(_status(what, key, measured, outline) for what in LAWS)


def _status(what: str, key: str, measured: Measurement | None, outline: Outline) -> Status:
    law, value = LAWS[what], (VALUES | RARE)[key]
    if measured is None or measured.error:
        return Status(what, UNSEEN, "this type has not been measured")
    if broken := [said for said in measured.failures if said.startswith(f"{law}: {key} ")]:
        return Status(what, BROKEN, broken[0])
    plain = outline.plain.get(key, "") or (f"read only: {value.read_only}" if value.read_only else "")
    if value.layout.axes == () and value.layout.name == "Scalar":
        return Status(what, YES if what == "read" else NO, value.read_only or "not a tensor")
    # nature comes before exceptions: a derived value is not excepted from edits, it cannot take any
    if plain.startswith(_BY_NATURE[what]) and _BY_NATURE[what]:
        return Status(what, NO, _nature(plain, value.read_only))
    if excepted := list(_excepted(law, key, measured)):
        return Status(what, EXCEPTED, excepted[0])
    if key in measured.unproven or measured.laws.get(law) == "broken":
        return Status(what, UNSEEN, f"the law {law} was not seen to hold for it")
    return Status(what, YES, f"the law {law} holds under {' and '.join(measured.attention)}")


def tower_statuses(key: str, read_only: str, found: Mapping[str, Any] | None) -> tuple[Status, ...]:
    """Read, write and gradient of a value of a tower or projector, by the towers' own laws."""
    if found is None:
        return tuple(Status(what, UNSEEN, "this type's tower was not run") for what in LAWS)
    seen = key in found["served"]
    by_law = {what: found["laws"].get(law, "") for what, law in LAWS.items()}
    read = Status("read", YES if seen and by_law["read"] == "holds" else UNSEEN, by_law["read"] or "not measured")
    moves = YES if seen and by_law["write"] == "holds" else UNSEEN
    write = Status("write", NO if read_only else moves, read_only or by_law["write"] or "not measured")
    slope = by_law["gradient"]  # towers are run for it where the kept measurement has that law
    gradient = Status("gradient", YES if seen and slope == "holds" else NO, slope or "not measured for towers")
    return read, write, gradient


def _nature(plain: str, read_only: str) -> str:
    """In words why a value by its nature takes no edit or has no gradient."""
    if plain == "whole numbers":
        return "whole numbers have no gradient"
    return f"derived: {read_only}" if plain == "derived" and read_only else plain


def _excepted(law: str, key: str, measured: Measurement) -> Iterator[str]:
    """What the row declares of this value under a law."""
    for said in measured.exceptions:
        name, value, why = said.split(": ", 2)
        if name == law and value == key:
            yield why


def declared(measured: Measurement | None) -> dict[str, tuple[str, ...]]:
    """The exceptions of a type by reason, each with the laws and values that it is about."""
    found: dict[str, list[str]] = {}
    for said in measured.exceptions if measured else ():
        law, value, why = said.split(": ", 2)
        found.setdefault(why, []).append(f"{law}: {value}")
    return {why: tuple(about) for why, about in sorted(found.items())}
