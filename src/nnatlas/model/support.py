"""What a model serves, predicted from its row and config before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tower import BoundTower
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.errors import Unavailable
from nnatlas.layouts import Layout
from nnatlas.places import Derived
from nnatlas.values import RARE, VALUES, VISION_HOSTS, Value

ALL = "all blocks"


@dataclass(frozen=True, slots=True)
class Served:
    """One value on one model: its layout and place in words, and the blocks that lack it, with the reason."""

    value: Value
    layout: Layout
    place: str
    missing: Mapping[str, str]
    note: str = ""

    @property
    def everywhere(self) -> bool:
        return not self.missing

    @property
    def nowhere(self) -> bool:
        return ALL in self.missing

    @property
    def reason(self) -> str | None:
        """Why it is absent, or None where every block has it; several reasons name their blocks."""
        if not self.missing:
            return None
        return "; ".join(why if where == ALL else f"{where}: {why}" for where, why in self.missing.items())


class Support(Mapping[str, "str | None"]):
    """`support()`'s answer: a table when printed, and a mapping from value to None (served) or the reason why not.

    >>> model.support()["block.layer_mid"]
    'a parallel block: attention and MLP read the same stream, so there is none between them'

    Where the model takes images, `tower` is the same of what reads them: `support()["vision.layers[i].layer_output"]`.
    """

    def __init__(self, rows: Mapping[str, Served], title: str, tower: Support | None = None) -> None:
        self.rows, self.title, self.tower = dict(rows), title, tower

    def __getitem__(self, name: str) -> str | None:
        if self.tower is not None and name.startswith(tuple(VISION_HOSTS)):
            return self.tower[name]
        return self.rows[self.key(name)].reason

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, name: str) -> str:
        """The full key of a value named with or without its host."""
        if name in self.rows:
            return name
        return next((key for key in self.rows if key.rpartition(".")[2] == name), name)

    @property
    def served(self) -> list[str]:
        """Values that at least one block has."""
        return [key for key, row in self.rows.items() if not row.nowhere]

    @property
    def absent(self) -> dict[str, str]:
        """Values that no block has, with the reason."""
        return {key: row.reason or "" for key, row in self.rows.items() if row.nowhere}

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from nnatlas.model.support_view import tables

        yield tables(self, options.max_width)

    def __repr__(self) -> str:
        from nnatlas.model.support_view import support_text

        return support_text(self)

    def _repr_html_(self) -> str:
        from nnatlas.model.support_view import support_html

        return support_html(self)


def support_of(model: BoundModel) -> Support:
    """Ask every host for every value of the vocabulary."""
    rare = {key: value for key, value in RARE.items() if key in model.family.cells}
    found = {key: _served(model, value) for key, value in (VALUES | rare).items()}
    rows = {key: row for key, row in found.items() if row is not None}
    title = f"{type(model.module).__name__} ({model.family.name}), {len(model.blocks)} blocks"
    return Support(rows, title, _of_tower(model.vision) if isinstance(model.vision, BoundTower) else None)


def _of_tower(tower: BoundTower) -> Support:
    """The same of a tower and its projector, under the names that are typed: `vision.layers[i].mlp.mlp_output`."""
    rows = [_row(_named(value, value.host), [tower.root], []) for value in tower.root.values.values()]
    if tower.projector is not None:
        rows += [_row(_named(value, value.host), [tower.projector], []) for value in tower.projector.values.values()]
    for part in ("block", "self_attn", "mlp"):
        hosts = [block if part == "block" else block.parts.get(part) for block in tower.blocks]
        served = [host for host in hosts if host is not None]
        where = "vision.layers[i]" if part == "block" else f"vision.layers[i].{part}"
        rows += [_row(_named(value, where), served, []) for value in (served[0].values.values() if served else ())]
    title = f"what reads images: {type(tower.root.module).__name__} ({tower.family.name}), {len(tower.blocks)} blocks"
    return Support({row.value.key: row for row in rows}, title)


def _named(value: Value, host: str) -> Value:
    """A value under its place in the tower."""
    return value.remade(host=host)


def _served(model: BoundModel, value: Value) -> Served | None:
    """One row; None for the values of a part that no block has and the family never speaks of."""
    if value.host == "model":
        return _row(value, [model.root], [])
    hosts = model.blocks if value.host == "block" else [block.parts.get(value.host) for block in model.blocks]
    if value.host == "linear_attn" and not any(hosts):
        return None
    return _row(
        value,
        [host for host in hosts if host is not None],
        [b for b, h in zip(model.blocks, hosts, strict=True) if h is None],
    )


def _row(value: Value, hosts: list[Host], without: list[Host]) -> Served:
    """One value over all hosts of its kind: layout and place where it is first served, and the reasons where it is not.

    `without` are blocks that lack the part altogether.  Blocks with one reason are named together, `blocks 0-3 5`.
    """
    reasons: dict[str, list[int]] = {}
    point: Point | Computed | None = None
    for host in hosts:
        try:
            point = point or host.point(value.name)
            host.point(value.name)
        except Unavailable as why:
            reasons.setdefault(why.reason, []).append(host.index or 0)
    for block in without:
        bound = block.roles[value.host]
        reasons.setdefault(getattr(bound, "reason", "this block has no such part"), []).append(block.index or 0)
    total = len(hosts) + len(without)
    missing = {(ALL if len(at) == total else f"blocks {spans(at)}"): why for why, at in reasons.items()}
    if len(reasons) > 1 and point is None:
        missing = {ALL: "; ".join(f"blocks {spans(at)}: {why}" for why, at in reasons.items())}
    notes = hosts[0].owner.family.notes if hosts else {}
    note = notes.get(value.key) or notes.get(value.name, "")
    return Served(
        value, point.layout if point else value.layout, _place(hosts[0], point) if point else "", missing, note
    )


def _place(host: Host, point: Point | Computed) -> str:
    """Where a point is read, in the native names of this block: `the module mlp.c_proj's input`."""
    if isinstance(point, Computed):
        return Derived(point.function, point.arguments).words({})
    bound = {role: found[1] for role, found in host.roles.items() if isinstance(found, tuple)}
    block = host.block or host
    bound |= {
        role: found[1]
        for part in block.parts.values()
        for role, found in part.roles.items()
        if isinstance(found, tuple)
    }
    bound |= {role: found[1] for role, found in block.roles.items() if isinstance(found, tuple)}
    names = {role: path.removeprefix(block.path + ".") for role, path in bound.items()}
    return point.place.words(names | {"block": "block", "root": "model"}) if point.place else point.path


def spans(numbers: list[int]) -> str:
    """`[0, 1, 2, 5]` as `0-2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
