"""The generated pages on all families: what each row says that its shape does not, and which type serves which value.

`families.md` is made from the rows, `support-matrix.md` from the kept measurements; no model is run for either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from nnatlas import families
from nnatlas.cli.check_all import totals_of
from nnatlas.families import _mixers, _shapes, _streams
from nnatlas.families._row import _KEYS, ROLES, Cell, Family, Kind
from nnatlas.families._since import SINCE
from nnatlas.places import Absent
from nnatlas.traits import TRAITS, Measurement, kept, traits_of
from nnatlas.traits.measured import SOME
from nnatlas.values import HOSTS, VALUES, on_host

FAMILIES = """# All families side by side

Every row shows only the cells in which a family differs from the shape it starts from; everything else is as in the shape.
`nnatlas families TYPE` shows one family, `nnatlas families --with moe,parallel --without rotary` searches by trait, and
[Adding a family](adding-a-family.md) explains the cells. *none* stands for a role or value that is absent on purpose; the
reason is in [the support matrix](support-matrix.md) and in `model.support()`.
"""

MATRIX = """# What every model type serves

Measured: `nnatlas check --all` builds each type as a tiny random model and runs every law on it, under its default attention
and under eager. The measurements are kept in `src/nnatlas/data/support.json`; `make matrix` takes them again, and
`nnatlas check --all --stale` only those whose row has changed.
"""


def bar(text: str) -> str:
    """Text that may stand in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """Text in code type within a table."""
    return f"`{bar(text)}`"


# -- families.md -------------------------------------------------------------------------------------------------------


def families_page() -> str:
    """The shapes, then every family under the shape that it starts from; last the cells that several families share."""
    shapes = {one.name: one for one in vars(_shapes).values() if isinstance(one, Family)}
    rows = sorted({id(one): one for one in families.rows().values()}.values(), key=lambda one: one.name)
    parts = [FAMILIES]
    for name in dict.fromkeys([*shapes, *(one.shape for one in rows)]):
        mine, shape = [one for one in rows if one.shape == name], shapes.get(name)
        parts.append(f"## {name}\n\n{_shape(shape, shapes)}{_family_table(mine, shape)}")
    return "\n".join([*parts, _shared_table("\n".join(parts))])


def _shape(shape: Family | None, shapes: Mapping[str, Family]) -> str:
    """What a shape says: the first in full, the others by what sets them apart."""
    if shape is None:
        return ""
    below = shapes.get(shape.shape)
    shown = "<br>".join(_differences(shape, below))
    opening = f"The shape itself differs from {below.name} in" if below else "The shape itself"
    return f"<details><summary>{opening}</summary>\n\n{shown}\n\n</details>\n\n"


def _family_table(rows: Iterable[Family], shape: Family | None) -> str:
    lines = [
        f"| **{one.name}**{_since(one.name)} {_others(one)}| {'<br>'.join(_differences(one, shape)) or 'nothing'} |\n"
        for one in rows
    ]
    return "| family | differs in |\n|---|---|\n" + "".join(lines) if lines else ""


def _others(family: Family) -> str:
    """The further types that a row covers."""
    others = [f"{name}{_since(name)}" for name in family.covers if name != family.name]
    return f"({', '.join(others)}) " if others else ""


def _since(name: str) -> str:
    """The release of transformers that a type needs, where that is not one that everybody has."""
    return f" from transformers {SINCE[name]}" if name in SINCE else ""


def _differences(family: Family, shape: Family | None) -> Iterator[str]:
    """Each cell, kind, readout and identity that the row states for itself."""
    yield from _cells(family.cells, shape.cells if shape else {})
    kinds = {kind.name: kind for kind in shape.kinds} if shape else {}
    yield from (_kind(kind, kinds.get(kind.name)) for kind in family.kinds if kinds.get(kind.name) != kind)
    if shape is None or family.readout != shape.readout:
        yield f"readout = {_said(family.readout)}"
    if shape is None or family.identity != shape.identity:
        yield f"identity: {_said(family.identity)}"
    if family.looped:
        yield "looped"


def _cells(cells: Mapping[str, Cell], before: Mapping[str, Cell]) -> Iterator[str]:
    """Cells that are not as before; those that many rows share by the name of their set."""
    own = {key: cell for key, cell in cells.items() if before.get(key) != cell}
    for name, shared in SHARED.items() if before else ():
        alike = [key for key, cell in shared.items() if own.get(key) == cell]
        if shared.keys() <= own.keys() and 2 * len(alike) > len(shared):
            yield f"cells of [{name}](#cells-that-several-families-share)"
            own = {key: cell for key, cell in own.items() if key not in alike}
    yield from (_cell(key, cell) for key, cell in own.items())


def _cell(key: str, cell: Cell) -> str:
    return f"{key} = {_said(cell)}"


def _said(cell: Cell) -> str:
    if isinstance(cell, tuple):
        return " or ".join(map(_said, cell))
    return "*none*" if isinstance(cell, Absent) else code(cell)


def _kind(kind: Kind, below: Kind | None) -> str:
    """A kind of block by its condition and its cells, or those that are not as in the shape's kind of that name."""
    shown = "; ".join(_cells(kind.cells, below.cells if below else {"": ""}))
    return f"*{kind.name}* blocks ({code(kind.when)}): {shown or 'as in the shape'}"


def _sets() -> Iterator[tuple[str, dict[str, Cell]]]:
    """The named mappings of cells that rows are put together from, under the keys that rows have them under."""
    for module in (_mixers, _streams, _shapes):
        for name, cells in vars(module).items():
            if name.isupper() and not name.startswith("_") and isinstance(cells, dict) and len(cells) > 1:
                keys = {key: f"linear_attn.{key}" if module is _mixers else str(_KEYS.get(key, key)) for key in cells}
                if all(key in VALUES or key in ROLES for key in keys.values()):
                    yield name, {keys[key]: cell for key, cell in cells.items()}


SHARED = dict(sorted(_sets(), key=lambda named: -len(named[1])))


def _shared_table(page: str) -> str:
    """The sets that the page speaks of."""
    lines = [
        f"| **{name}** | {'<br>'.join(map(_cell, cells, cells.values()))} |\n"
        for name, cells in sorted(SHARED.items())
        if f"[{name}]" in page
    ]
    return "## Cells that several families share\n\n| set | cells |\n|---|---|\n" + "".join(lines)


# -- support-matrix.md -------------------------------------------------------------------------------------------------

MARKS = {SOME: "◐", "everywhere": "●"}
LEGEND = "● served by every block (or by the model), ◐ by some blocks, · absent: see the reasons below."


def matrix_page() -> str:
    """Totals, one table for each host, the reasons for what is absent, traits, exceptions, and what is broken."""
    measured = kept()
    versions = ", ".join(f"{name} {number}" for name, number in measured.versions.items())
    sums = "".join(f"| {what} | {bar(number)} |\n" for what, number in totals_of(measured))
    parts = [f"{MATRIX}\nTaken with {versions}.\n\n| | |\n|---|---|\n{sums}", LEGEND + "\n"]
    parts += [_host(host, measured.types) for host in HOSTS]
    parts += [_reasons(measured.types), _exceptions(measured.types), _traits(measured.types), _broken(measured.types)]
    return "\n".join(parts)


def _host(host: str, types: Types) -> str:
    """Types by the values of one host; types that agree in all of them share a line, those with none are left out."""
    values = on_host(host)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, one in types.items():
        if not one.error:
            groups.setdefault(tuple(MARKS.get(one.served.get(v.key, ""), "·") for v in values), []).append(name)
    groups.pop(("·",) * len(values), None)
    heads = " | ".join(v.name for v in values)
    lines = [f"| {' | '.join(marks)} | {_names(names)} |\n" for marks, names in sorted(groups.items(), key=_by_size)]
    return f"## {HOSTS[host]}\n\n| {heads} | types |\n|{':-:|' * len(values)}---|\n{''.join(lines)}"


def _by_size(group: tuple[tuple[str, ...], list[str]]) -> tuple[int, list[str]]:
    return -len(group[1]), group[1]


def _names(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if len(names) > 1 else names[0]


Types = Mapping[str, Measurement]
Pairs = Iterable[tuple[str, str]]


def _by(types: Types, said: Callable[[Measurement], Pairs]) -> list[tuple[str, str, list[str]]]:
    """Each pair that is said of some types, sorted, with those types."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, one in types.items():
        for pair in said(one):
            found.setdefault(pair, []).append(name)
    return [(*pair, names) for pair, names in sorted(found.items())]


def _reasons(types: Types) -> str:
    """Why a value is absent, with the types; a reason that most types share is not followed by all their names."""
    found = _by(types, lambda one: one.absent.items())
    lines = [f"| {key} | {bar(why)} | {_few(names, len(types))} |\n" for key, why, names in found]
    return "## Why a value is absent\n\n| value | reason | types |\n|---|---|---|\n" + "".join(lines)


def _few(names: list[str], total: int, shown: int = 12) -> str:
    if len(names) > total // 2:
        return f"{len(names)} types"
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _exceptions(types: Types) -> str:
    """Laws that rows declare not to hold, with the reason."""
    found = _by(types, lambda one: {_declared(said) for said in one.exceptions})
    lines = [f"| {law} | {bar(why)} | {_few(names, len(types))} |\n" for law, why, names in found]
    return "## Exceptions that rows declare\n\n| law | why | types |\n|---|---|---|\n" + "".join(lines)


def _declared(said: str) -> tuple[str, str]:
    """Law and reason of an exception, `law: value: reason`."""
    law, _, why = said.split(": ", 2)
    return law, why


def _traits(types: Types) -> str:
    """Every trait with its types."""
    having: dict[str, list[str]] = {key: [] for key in TRAITS}
    for name in types:
        for key in traits_of(name):
            having[key].append(name)
    lines = [
        f"| {one.key} | {one.name}: {one.meaning} | {_few(having[one.key], len(types), 40)} |\n"
        for one in TRAITS.values()
    ]
    return "## Traits\n\n| trait | what it says | types |\n|---|---|---|\n" + "".join(lines)


def _broken(types: Types) -> str:
    lines = [
        f"| {name} | {bar(said)} |\n" for name, one in types.items() for said in (one.error, *one.failures) if said
    ]
    return "## What is broken\n\n" + ("| type | finding |\n|---|---|\n" + "".join(lines) if lines else "Nothing.\n")
