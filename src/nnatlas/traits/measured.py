"""What `nnatlas check --all` found for every model type, as it is kept in the package: `data/support.json`, one line a type.

The file needs no torch to be read.  Each type carries the fingerprint of the row it was measured with, so that a row that
has changed since is known to be stale without running a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from nnatlas import families
from nnatlas.errors import InputError
from nnatlas.families._row import Family
from nnatlas.places import Absent
from nnatlas.traits.fingerprint import of_type
from nnatlas.values import VALUES

KEPT: Final = Path(__file__).parents[1] / "data" / "support.json"
EVERYWHERE, SOME = "everywhere", "some blocks"
MARKS: Final = {"+": EVERYWHERE, "~": SOME}
"""How the file writes where a value is served; a number is an absence, with that entry of `reasons`."""
HOLDS: Final = "holds"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One type, run as a tiny random model under its default attention and under eager.

    `served` maps a value's key to "everywhere" or "some blocks", `absent` to the reason; `unproven` are values that are served
    but could not be read.  `laws` says "holds", "excepted" or "broken" of each law.  `kinds`, `sizes`, `roles` and `facts` tell
    what the model is made of.  `error` is set, and all else empty, where no model could be built or bound.
    """

    model_type: str
    family: str = ""
    row: str = ""
    attention: tuple[str, ...] = ()
    served: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    unproven: tuple[str, ...] = ()
    laws: Mapping[str, str] = field(default_factory=dict)
    exceptions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    kinds: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    roles: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    error: str = ""

    @property
    def passed(self) -> bool:
        return not (self.error or self.failures)

    def serves(self, *keys: str) -> bool:
        """Whether all of these values are served and were read."""
        return all(key in self.served and key not in self.unproven for key in keys)

    def serves_or_says(self, *keys: str) -> bool:
        """Whether each of these values is served and was read, or is absent with a reason."""
        return not self.error and all(self.serves(key) or self.absent.get(key) for key in keys)


def measurable() -> dict[str, Family]:
    """Rows by the types of transformers that can be built alone: `x_text_model` exists only inside x, and is measured there."""
    known = families.rows()
    within = {name for name in known if name.endswith("_text_model") and name.removesuffix("_text_model") in known}
    return {name: row for name, row in sorted(known.items()) if name not in within and not row.defined_in}


@dataclass(frozen=True, slots=True)
class Kept:
    """Measurements by type, and the versions that they were taken with."""

    versions: Mapping[str, str]
    types: Mapping[str, Measurement]

    def stale(self) -> list[str]:
        """Types whose row has changed since, or that were never measured."""
        return [name for name in measurable() if not self._fresh(name)]

    def _fresh(self, name: str) -> bool:
        return name in self.types and self.types[name].row == of_type(name, self.types[name].family)

    def with_new(self, newer: Kept) -> Kept:
        """These with the newer ones in their place, without types that no row covers any more."""
        joined = {name: one for name, one in {**self.types, **newer.types}.items() if name in measurable()}
        return Kept({**self.versions, **newer.versions}, dict(sorted(joined.items())))


# -- from what a sweep reports -----------------------------------------------------------------------------------------


def from_reports(types: Mapping[str, Mapping[str, Any]], versions: Mapping[str, str]) -> Kept:
    """What is worth keeping of a sweep's reports: `{type: {attention: facts}}`, or `{type: {"error": ...}}`."""
    return Kept(versions, {name: _measurement(name, reports) for name, reports in sorted(types.items())})


def _measurement(name: str, reports: Mapping[str, Any]) -> Measurement:
    """What the loads of one type (default and eager attention) reported, as one: served where the first serves it, and broken,
    excepted or unread where any of them is.
    """
    if "error" in reports:
        return Measurement(name, error=reports["error"])
    first, ways = next(iter(reports.values())), list(reports.values())
    values, built = first["values"], first["structure"]
    exceptions, failures = (
        tuple(dict.fromkeys(said for way in ways for said in way[of])) for of in ("exceptions", "failures")
    )
    return Measurement(
        model_type=name,
        family=first["family"],
        row=first["row"],
        attention=tuple(reports),
        served={key: one["served"] for key, one in values.items() if not one["absent"]},
        absent={
            key: _reason(name, key, values.get(key)) for key in VALUES if key not in values or values[key]["absent"]
        },
        unproven=tuple(key for key in values if any(_unread(key, way["values"].get(key)) for way in ways)),
        laws={law: _verdict(law, ways, exceptions) for law in first["laws"]},
        exceptions=exceptions,
        failures=failures,
        kinds=built["kinds"],
        sizes=built["sizes"],
        roles=frozenset(built["roles"]),
        facts=frozenset(built["facts"]),
    )


def _reason(name: str, key: str, value: Mapping[str, Any] | None) -> str:
    """Why a value is absent; where no block has the part that it hangs on, the row's reason for that."""
    if value is not None:
        return str(value["absent"])
    host, family = VALUES[key].host, families.find(name)
    cell = family.cells.get(host) if family is not None else None
    return cell.reason if isinstance(cell, Absent) else f"no block has the part {host}"


UNSEEN: Final = {"", "broken", "unproven"}
"""What a check says of a value that it did not see as it should be; anything else is a row's declared reason."""


def _unread(key: str, value: Mapping[str, Any] | None) -> bool:
    """Whether a value is listed as served and yet was not seen; a size is no tensor, there is nothing to see."""
    is_tensor = key in VALUES and VALUES[key].layout.axes != ()
    return value is not None and not value["absent"] and value["read"] in UNSEEN and is_tensor


def _verdict(law: str, ways: Iterable[Mapping[str, Any]], exceptions: Iterable[str]) -> str:
    """One word for a law over all attention implementations."""
    if any(way["laws"].get(law, {}).get("broken") for way in ways):
        return "broken"
    return "excepted" if any(said.startswith(f"{law}: ") for said in exceptions) else HOLDS


# -- as a file ---------------------------------------------------------------------------------------------------------


def to_text(kept: Kept) -> str:
    """JSON with one line a type; the same measurements give the same text."""
    reasons = sorted({said for one in kept.types.values() for said in (*one.absent.values(), *one.exceptions)})
    number = {said: at for at, said in enumerate(reasons)}
    head = {"versions": dict(sorted(kept.versions.items())), "values": list(VALUES)}
    lines = [f" {_json(name)}: {_json(dict(_entry(one, number)))}" for name, one in kept.types.items()]
    listed = ",\n ".join(map(_json, reasons))
    return f'{{{_json(head)[1:-1]},\n"reasons": [\n {listed}],\n"types": {{\n' + ",\n".join(lines) + "\n}}\n"


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _entry(one: Measurement, number: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    """The fields that say something, in their short forms."""
    marks = {where: mark for mark, where in MARKS.items()}
    places = [
        marks[one.served[key]] if key in one.served else str(number.get(one.absent.get(key, ""), "-")) for key in VALUES
    ]
    told = {
        "family": one.family,
        "row": one.row,
        "attention": " ".join(one.attention),
        "values": "" if one.error else " ".join(places),
        "unproven": list(one.unproven),
        "laws": {law: said for law, said in one.laws.items() if said != HOLDS},
        "held": " ".join(law for law, said in one.laws.items() if said == HOLDS),
        "exceptions": [number[said] for said in one.exceptions],
        "failures": list(one.failures),
        "kinds": one.kinds,
        "sizes": one.sizes,
        "roles": " ".join(sorted(one.roles)),
        "facts": sorted(one.facts),
        "error": one.error,
    }
    return ((name, value) for name, value in told.items() if value)


def from_text(text: str) -> Kept:
    """The measurements that `to_text` wrote."""
    data = json.loads(text)
    keys, reasons = data["values"], data["reasons"]
    return Kept(data["versions"], {name: _read(name, entry, keys, reasons) for name, entry in data["types"].items()})


def _read(name: str, entry: Mapping[str, Any], keys: list[str], reasons: list[str]) -> Measurement:
    """One entry of the kept file, whose values are one letter a column and whose reasons are numbers into a list."""
    marks = dict(zip(keys, entry.get("values", "").split(), strict=False))
    return Measurement(
        model_type=name,
        **{key: entry.get(key, "") for key in ("family", "row", "error")},
        attention=tuple(entry.get("attention", "").split()),
        served={key: MARKS[mark] for key, mark in marks.items() if mark in MARKS},
        absent={key: reasons[int(mark)] for key, mark in marks.items() if mark.isdigit()},
        unproven=tuple(entry.get("unproven", ())),
        laws=dict.fromkeys(entry.get("held", "").split(), HOLDS) | entry.get("laws", {}),
        exceptions=tuple(reasons[at] for at in entry.get("exceptions", ())),
        failures=tuple(entry.get("failures", ())),
        **{key: entry.get(key, {}) for key in ("kinds", "sizes")},
        roles=frozenset(entry.get("roles", "").split()),
        facts=frozenset(entry.get("facts", ())),
    )


def read(path: Path) -> Kept:
    """The measurements of a file; none where there is no such file."""
    if not path.exists():
        return Kept({}, {})
    try:
        return from_text(path.read_text(encoding="utf-8"))
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{str(path)!r} holds no measurements of `nnatlas check --all`: {fault}") from None


@cache
def kept() -> Kept:
    """The measurements that come with the package."""
    return read(KEPT)
