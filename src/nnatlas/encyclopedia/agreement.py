"""Do rows, measurements and outlines say the same?  Where they do not, no page is written, and page and value are named.

A row that has changed since it was measured shows by its fingerprint; which value it now reads elsewhere shows by comparing
its cells with those that were bound.  A law found broken names its value itself.

Three things meet here: the row as it stands, `data/support.json` (what running a tiny model found), and the outlines (what was
bound on a real shape).  Each of the last two carries the fingerprint of the row it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.outline import Bound, Outline
from nnatlas.errors import LawBroken
from nnatlas.families._row import ROLES, Cell, Family
from nnatlas.places import Absent, Same, Side, parse
from nnatlas.traits.fingerprint import of_type

SHOWN = 12
RENEW = (
    "If the change is meant, measure it: `nnatlas check --all --stale --results src/nnatlas/data/support.json`, "
    "then `nnatlas encyclopedia outline --stale`."
)


def require_agreement(outlines: Mapping[str, Outline | None]) -> None:
    """`LawBroken` with every disagreement (a dozen of them at most), by page and value."""
    found = [said for name, outline in outlines.items() for said in disagreements(name, outline)]
    if found:
        more = f"\n  and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        shown = "\n  ".join(found[:SHOWN])
        count = "1 statement is" if len(found) == 1 else f"{len(found)} statements are"
        raise LawBroken(f"{count} not what was measured:\n  {shown}{more}\n  {RENEW}")


def disagreements(model_type: str, outline: Outline | None) -> Iterator[str]:
    """What the pages would say of one type that was not measured so."""
    page, measured = f"page family/{model_type}", measurements.measured(model_type)
    if measured is None or outline is None:
        yield f"{page}: the type has {'no measurement' if measured is None else 'no outline'}"
        return
    if measured.error:
        yield f"{page}: the measurement failed: {measured.error}"
        return
    yield from (f"{page}, {_value_in(said)}: the law is broken: {said}" for said in measured.failures)
    moved = list(_moved(page, outline))
    yield from moved
    for kept, what in ((measured.row, "measured"), (outline.row, "outlined")):
        if not moved and kept != of_type(model_type, measured.family if what == "measured" else outline.family):
            yield f"{page}, the row as a whole: families/{_row(outline).name}.py has changed since it was {what}"


def _value_in(failure: str) -> str:
    """The value that `law: value at place: detail` is about."""
    return f"value {failure.partition(': ')[2].partition(' at ')[0] or 'unknown'}"


def _row(outline: Outline) -> Family:
    """The row that the outline was bound by, which of a wrapper is its text model's."""
    rows = families.rows()
    return next((row for row in rows.values() if row.name == outline.family), rows[outline.model_type])


def _moved(page: str, outline: Outline) -> Iterator[str]:
    """Values that the row now reads elsewhere than where they were bound, or calls absent."""
    row, told = _row(outline), set[str]()
    for bound, cells in _hosts(outline, row):
        for key, was in bound.cells.items():
            if key not in told and key in cells and was not in _texts(cells[key], cells):
                told.add(key)
                yield f"{page}, value {key}: the row reads it at {_said(cells[key])}, but it was measured at `{was}`"
        for key, why in bound.absent.items():
            if key not in told and key in cells and key not in ROLES and not _may_be_absent(cells[key], why, cells):
                told.add(key)
                yield f"{page}, {key}: the row has it at {_said(cells[key])}, but it was found absent: {why}"


def _hosts(outline: Outline, row: Family) -> Iterator[tuple[Bound, Mapping[str, Cell]]]:
    """The root, then every sort of block with the row's cells for its kinds."""
    yield outline.root, row.cells
    kinds = {kind.name: kind for kind in row.kinds}
    for variant in outline.variants:
        cells: dict[str, Cell] = dict(row.cells)
        for name in variant.kinds:
            cells |= kinds[name].cells if name in kinds else {}
        yield variant.bound, cells


def _texts(cell: Cell, cells: Mapping[str, Cell]) -> list[str]:
    """The places that a cell names, and those of the value whose place it shares."""
    texts = [one for one in _alternatives(cell) if isinstance(one, str)]
    shared = [source.value for text in texts if isinstance(source := parse(text).source, Same)]
    keys = [key for key in cells if key.rpartition(".")[2] in shared]
    return texts + [text for key in keys for text in _texts(cells[key], {})]


def _may_be_absent(cell: Cell, why: str, cells: Mapping[str, Cell]) -> bool:
    """Whether a cell has that reason among its alternatives, or names a role that has, or a module that a model may lack."""
    parts = _alternatives(cell)
    reasons = [one.reason for one in parts if isinstance(one, Absent)]
    roles = [source.path for text in parts if isinstance(text, str) and isinstance(source := parse(text).source, Side)]
    reasons += [one.reason for role in roles for one in _alternatives(cells.get(role, ())) if isinstance(one, Absent)]
    return why in reasons or (not reasons and " has no " in why)


def _alternatives(cell: Cell) -> tuple[str | Absent, ...]:
    return cell if isinstance(cell, tuple) else (cell,)


def _said(cell: Cell) -> str:
    parts = _alternatives(cell)
    return " or ".join(f"none ({one.reason})" if isinstance(one, Absent) else f"`{one}`" for one in parts)
