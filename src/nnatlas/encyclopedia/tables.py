"""The tables of values, by host: what is there, where it is read in words, on which condition, and what is not there and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.outline import Bound, Outline
from nnatlas.encyclopedia.status import Status, statuses, tower_statuses
from nnatlas.encyclopedia.words import EVERY, place_words, which
from nnatlas.families._row import Family
from nnatlas.traits import Measurement
from nnatlas.values import HOSTS, RARE, VISION_HOSTS, Value, host_path, on_host

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
    """The values of one host; `classes` are the Python classes it has in the outline's model.

    Where only some blocks have the host, `on` says which, and `elsewhere` why the others do not.
    """

    host: str
    typed: str
    doc: str
    classes: tuple[str, ...]
    rows: tuple[ValueRow, ...]
    absent: tuple[ValueRow, ...]
    on: str = ""
    elsewhere: str = ""

    @property
    def nowhere(self) -> str:
        """Why no block has the host; empty where one has."""
        return "" if self.classes else self.elsewhere

    @property
    def by_reason(self) -> dict[str, list[ValueRow]]:
        """What is absent, by the reason."""
        found: dict[str, list[ValueRow]] = {}
        for row in self.absent:
            found.setdefault("; ".join(dict.fromkeys(one.words for one in row.missing)), []).append(row)
        return found


def host_tables(outline: Outline, family: Family, found: Measurement | None) -> tuple[HostTable, ...]:
    """A table for every host of the vocabulary that a model could have."""
    hosts = [*HOSTS, *(host for host in VISION_HOSTS if host in outline.vision.classes)]
    return tuple(_table(Stack(outline, host), family, found) for host in hosts)


@dataclass(frozen=True, slots=True)
class Stack:
    """The blocks of an outline as far as they have a host; the model itself counts as one block.

    Values hang on hosts, and of a hybrid only some blocks have a `self_attn`: what is said of a value is said of those blocks.
    """

    outline: Outline
    host: str

    @property
    def whole(self) -> bool:
        """Whether it is no part of blocks: the model, a tower, a projector."""
        return self.host == "model" or self.host in VISION_HOSTS

    @property
    def sorts(self) -> list[tuple[tuple[int, ...], Bound]]:
        """Blocks and what is bound there, for every sort of block that has the host."""
        if self.whole:
            return [((-1,), bound) for bound in self.outline.at(self.host)]
        return [(one.blocks, one.bound) for one in self.outline.variants if self.host in one.bound.classes]

    @property
    def blocks(self) -> list[int]:
        return [block for blocks, _ in self.sorts for block in blocks]

    def said(self, blocks: list[int]) -> str:
        """Which of the host's blocks these are."""
        return EVERY if len(blocks) == len(self.blocks) else which(tuple(sorted(blocks)), self.outline.blocks)

    @property
    def on(self) -> str:
        """The blocks that have the host, where not all have."""
        some = not self.whole and 0 < len(self.blocks) < self.outline.blocks
        return which(tuple(sorted(self.blocks)), self.outline.blocks) if some else ""

    @property
    def elsewhere(self) -> str:
        """Why blocks lack the host."""
        lacking = [one.bound for one in self.outline.variants if self.host not in one.bound.classes]
        return _reason(self.host, lacking[0]) if lacking and not self.whole else ""

    def by_words(self, said: Callable[[Bound], tuple[str, str] | None]) -> tuple[Where, ...]:
        """What is said of each sort (words and cell), with the blocks it is said of."""
        found: dict[tuple[str, str], list[int]] = {}
        for blocks, bound in self.sorts:
            if (words := said(bound)) is not None:
                found.setdefault(words, []).extend(blocks)
        return tuple(Where(words, self.said(blocks), cell) for (words, cell), blocks in found.items())


def _table(stack: Stack, family: Family, found: Measurement | None) -> HostTable:
    """One host: the vocabulary's values in order, then rare ones of this family; served ones apart from absent ones."""
    host = stack.host
    rare = tuple(
        one for one in RARE.values() if one.host == host and any(one.key in bound.cells for _, bound in stack.sorts)
    )
    rows = tuple(_row(value, stack, family, found) for value in (*on_host(host), *rare))
    return HostTable(
        host=host,
        typed=host_path(host),
        doc=(HOSTS | VISION_HOSTS)[host],
        classes=tuple(dict.fromkeys(bound.classes[host] for _, bound in stack.sorts)),
        rows=tuple(row for row in rows if row.served),
        absent=tuple(row for row in rows if not row.served and row.missing),
        on=stack.on,
        elsewhere=stack.elsewhere,
    )


def _row(value: Value, stack: Stack, family: Family, found: Measurement | None) -> ValueRow:
    """One value over all sorts of block, its places grouped by what is said of them."""
    key, root = value.key, stack.outline.root
    layouts = [bound.layouts[key] for _, bound in stack.sorts if key in bound.layouts]
    places = stack.by_words(
        lambda bound: (
            (place_words(bound.cells[key], bound, root, value.host), bound.cells[key]) if key in bound.cells else None
        )
    )
    return ValueRow(
        value=value,
        layout=layouts[0] if layouts else str(value.layout),
        note=family.notes.get(key) or family.notes.get(value.name, ""),
        places=places,
        missing=stack.by_words(lambda bound: None if key in bound.cells else (_reason(key, bound), "")),
        condition=_condition(key, stack, found) if places else "",
        statuses=_statuses(value, stack.outline, found) if places else (),
    )


def _statuses(value: Value, outline: Outline, found: Measurement | None) -> tuple[Status, ...]:
    """Read, write, gradient; towers have laws and a measurement of their own."""
    if value.host in VISION_HOSTS:
        return tower_statuses(value.key, value.read_only, measurements.tower(outline.model_type))
    return statuses(value.key, found, outline)


def _reason(key: str, bound: Bound) -> str:
    """Why a host lacks a value, or why a block lacks the host itself."""
    host = key.partition(".")[0]
    return bound.absent.get(key) or bound.absent.get(host) or "this family's row does not say where it is"


def _condition(key: str, stack: Stack, found: Measurement | None) -> str:
    """What a reader must know about the load for this value."""
    cells = [bound.cells.get(key, "") for _, bound in stack.sorts]
    said = [STEP_BY_STEP] if any(cell.startswith(("attention > scores", "attention > prob")) for cell in cells) else []
    for exception in found.exceptions if found else ():
        _, about, why = exception.split(": ", 2)
        if about == key and ("sdpa" in why or "use_cache" in why or "on text alone" in why):
            said.append(why)
    return "; ".join(dict.fromkeys(said))
