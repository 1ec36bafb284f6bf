"""The tables of values, by host: what is there, where it is read in words, on which condition, and what is not there and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nnatlas.encyclopedia.outline import Bound, Outline
from nnatlas.encyclopedia.status import Status, statuses
from nnatlas.encyclopedia.words import EVERY, place_words, which
from nnatlas.families._row import Family
from nnatlas.traits import Measurement
from nnatlas.values import HOSTS, RARE, Value, host_path, on_host

STEP_BY_STEP = (
    "in any load; while it is asked for, this block's attention is computed step by step, the others as they are"
)


@dataclass(frozen=True, slots=True)
class Where:
    """A place in words, or a reason for absence, and the blocks it holds for (EVERY where it is all of them)."""

    words: str
    blocks: str
    cell: str = ""


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One value: `places` where it is read, `missing` where it is not, `condition` what to know about loads."""

    value: Value
    layout: str
    note: str
    places: tuple[Where, ...]
    missing: tuple[Where, ...]
    condition: str
    statuses: tuple[Status, ...]

    @property
    def served(self) -> bool:
        return bool(self.places)


@dataclass(frozen=True, slots=True)
class HostTable:
    """The values of one host; `classes` are the Python classes it has in the outline's model."""

    host: str
    typed: str
    doc: str
    classes: tuple[str, ...]
    rows: tuple[ValueRow, ...]
    absent: tuple[ValueRow, ...]
    nowhere: str = ""

    @property
    def by_reason(self) -> dict[str, list[ValueRow]]:
        """What is absent, by the reason."""
        found: dict[str, list[ValueRow]] = {}
        for row in self.absent:
            found.setdefault("; ".join(dict.fromkeys(one.words for one in row.missing)), []).append(row)
        return found


def host_tables(outline: Outline, family: Family, found: Measurement | None) -> tuple[HostTable, ...]:
    """A table for every host of the vocabulary that the model could have."""
    return tuple(_table(host, outline, family, found) for host in HOSTS if _spoken_of(host))


def _spoken_of(host: str) -> bool:
    return host in ("model", "block", "self_attn", "linear_attn", "mlp")


def _table(host: str, outline: Outline, family: Family, found: Measurement | None) -> HostTable:
    rare = tuple(value for value in RARE.values() if value.host == host and value.key in family.cells)
    rows = tuple(_row(value, outline, family, found) for value in (*on_host(host), *rare))
    classes = tuple(dict.fromkeys(bound.classes[host] for bound in outline.at(host) if host in bound.classes))
    whole = "" if classes else _reason(host, outline.variants[0].bound)
    return HostTable(
        host, host_path(host), HOSTS[host], classes,
        tuple(row for row in rows if row.served), () if whole else tuple(row for row in rows if not row.served), whole,
    )  # fmt: skip


def _row(value: Value, outline: Outline, family: Family, found: Measurement | None) -> ValueRow:
    key, bounds = value.key, outline.at(value.host)
    note = family.notes.get(key) or family.notes.get(value.name, "")
    layout = next((bound.layouts[key] for bound in bounds if key in bound.layouts), str(value.layout))
    missing = tuple(_grouped(dict(_missing(value, outline)), outline))
    served = any(key in bound.cells for bound in bounds)
    return ValueRow(
        value=value,
        layout=layout,
        note=note,
        places=tuple(_places(value, outline)),
        missing=missing,
        condition=_condition(value, outline, found) if served else "",
        statuses=statuses(key, found, outline) if served else (),
    )


def _places(value: Value, outline: Outline) -> Iterator[Where]:
    """Each place in words, with the blocks where it is read there."""
    if value.host == "model":
        if value.key in outline.root.cells:
            cell = outline.root.cells[value.key]
            yield Where(place_words(cell, outline.root, outline.root), EVERY, cell)
        return
    found: dict[tuple[str, str], list[int]] = {}
    for variant in outline.variants:
        cell = variant.bound.cells.get(value.key)
        if cell is not None:
            words = place_words(cell, variant.bound, outline.root)
            found.setdefault((words, cell), []).extend(variant.blocks)
    for (words, cell), blocks in found.items():
        yield Where(words, which(tuple(sorted(blocks)), outline.blocks), cell)


def _missing(value: Value, outline: Outline) -> Iterator[tuple[int, str]]:
    """Every block that lacks a value (-1 stands for the model), and why."""
    if value.host == "model":
        if value.key not in outline.root.cells:
            yield -1, _reason(value.key, outline.root)
        return
    for variant in outline.variants:
        if value.key not in variant.bound.cells:
            yield from ((block, _reason(value.key, variant.bound)) for block in variant.blocks)


def _reason(key: str, bound: Bound) -> str:
    """Why a host lacks a value, or why a block lacks the host itself."""
    host = key.partition(".")[0]
    return bound.absent.get(key) or bound.absent.get(host) or "this family's row does not say where it is"


def _grouped(reasons: Mapping[int, str], outline: Outline) -> Iterator[Where]:
    found: dict[str, list[int]] = {}
    for block, why in reasons.items():
        found.setdefault(why, []).append(block)
    for why, blocks in found.items():
        whole = blocks == [-1] or len(blocks) == outline.blocks
        yield Where(why, EVERY if whole else which(tuple(sorted(blocks)), outline.blocks))


def _condition(value: Value, outline: Outline, found: Measurement | None) -> str:
    """What a reader must know about the load for this value."""
    cells = [bound.cells.get(value.key, "") for bound in outline.at(value.host)]
    said = [STEP_BY_STEP] if any(cell.startswith(("attention > scores", "attention > prob")) for cell in cells) else []
    for exception in found.exceptions if found else ():
        _, about, why = exception.split(": ", 2)
        if about == value.key and ("sdpa" in why or "use_cache" in why or "on text alone" in why):
            said.append(why)
    return "; ".join(dict.fromkeys(said))
