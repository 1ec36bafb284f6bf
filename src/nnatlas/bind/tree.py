"""The bound tree: every host of a live model with its roles, its kinds of block and its points, made from the row.

`bind` walks the blocks once and looks each role up; points are made when first asked for.  A role that should be there and
is not is refused here, naming family, role and path.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from nnatlas.bind import sizes as sizing
from nnatlas.bind.cells import make_point, native_point, operations
from nnatlas.bind.paths import join, lookup, meets
from nnatlas.bind.points import INPUT, OUTPUT, Computed, Point
from nnatlas.errors import RowDoesNotFit, Unavailable
from nnatlas.families._row import ROLES, Cell, Family
from nnatlas.layouts import LAYOUTS, Layout
from nnatlas.places import Absent, Calls, Pattern, Place
from nnatlas.values import RARE, VALUES, Value, on_host

_EDGE = Value("edge", "module", LAYOUTS["Own"], "where a call of the model or of a block begins or ends")


@dataclass(eq=False)
class Host:
    """One object that values hang on: the model, a block, or a block's attention, mixer or MLP."""

    kind: str
    name: str
    module: nn.Module
    path: str
    owner: BoundModel
    roles: dict[str, tuple[nn.Module, str] | Absent]
    cells: Mapping[str, Cell]
    index: int | None = None
    block: Host | None = None
    kinds: tuple[str, ...] = ()
    parts: dict[str, Host] = field(default_factory=dict)
    _points: dict[str, Point | Computed] = field(default_factory=dict)

    @cached_property
    def values(self) -> dict[str, Value]:
        """The vocabulary of this host, by name."""
        rare = (value for value in RARE.values() if value.host == self.kind and value.key in self.cells)
        return {value.name: value for value in (*on_host(self.kind), *rare)}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Sizes of this host; an attention's head counts and an MLP's width may differ from block to block.

        Of those the model has the first block's: where blocks differ, ask the block.
        """
        found = dict(self.owner.root.whole)
        modules = {role: bound[0] for role, bound in self.roles.items() if not isinstance(bound, Absent)}
        if self.kind == "self_attn":
            found |= sizing.attention_sizes(self.module, modules, self.owner.config)
        elif self.kind == "mlp":
            found |= sizing.mlp_sizes(self.module, modules, self.owner.config)
        elif self.kind == "linear_attn":
            found |= sizing.mixer_sizes(self.module, self.owner.config)
        stack = reversed(self.owner.blocks) if self.is_stack else ()
        for block in (self,) if self.kind == "block" else stack:
            for part in block.parts.values():
                found |= {name: size for name, size in part.sizes.items() if name in part.own_sizes}
        for name, path in self.owner.family.sizes.items():
            if not self.is_stack or path.startswith(("config.", "host.")):  # other paths start from a block
                found[name] = self.owner.stated(path, self)
        return found

    @cached_property
    def operations(self) -> list[tuple[str, nn.Module, frozenset[str]]]:
        """Modules of this block that write their arithmetic out, and the torch functions that places there count."""
        return operations(self) if self.owner.family.counts_operations else []

    @cached_property
    def calls(self) -> list[tuple[str, nn.Module, frozenset[str]]]:
        """Modules of this block whose Python calls some place names, and the functions that are counted there."""
        return operations(self, Calls) if self.owner.family.names_calls else []

    @cached_property
    def build(self) -> Hashable:
        """What a block is made of: blocks of one build compute in one order."""
        return self.kinds, tuple((name, type(part)) for name, part in self.module.named_modules())

    @property
    def is_stack(self) -> bool:
        """Whether blocks are stacked in it: the model, or a tower in front of one."""
        return self.kind in ("model", "vision")

    @property
    def turn(self) -> int | None:
        """The number of the block in the forward's order; None outside the blocks, and in towers, whose order is learned."""
        return None if self.owner.in_front else self.index

    @property
    def own_sizes(self) -> tuple[str, ...]:
        return {"self_attn": sizing.ATTENTION_SIZES, "mlp": sizing.MLP_SIZES}.get(self.kind, ())

    @cached_property
    def whole(self) -> dict[str, int]:
        """Sizes that hold for every block alike, from the config and the embedding (asked of the root)."""
        config, embedding = self.owner.config, self.roles["embed_tokens"]
        found = {
            "num_layers": len(self.owner.blocks),
            "hidden_size": sizing.setting(config, "hidden_size", "n_embd", "d_model"),
        }
        rows = None if isinstance(embedding, Absent) else lookup(embedding[0], "weight")
        found["vocab_size"] = sizing.setting(config, "vocab_size") or (rows.shape[0] if rows is not None else None)
        return {name: size for name, size in found.items() if isinstance(size, int)}

    def role(self, name: str) -> tuple[nn.Module, str] | Absent | None:
        """What plays a role here or, for a block's part, in the block; None if nobody in this family has heard of it."""
        block = self.block or self
        for host in (self, block, *block.parts.values(), self.owner.root):
            if name in host.roles:
                return host.roles[name]
        return None

    def absence(self, name: str) -> str | None:
        """Why this host lacks a value, or None if it is served."""
        try:
            self.point(name)
        except Unavailable as why:
            return why.reason
        return None

    def point(self, name: str) -> Point | Computed:
        """The point of a value; `Unavailable` with the row's reason if there is none here."""
        found = self._points.get(name)
        if found is None:
            found = self._points[name] = make_point(self, self.values[name])
        return found

    def cell(self, value: Value) -> Cell:
        return (
            self.cells[value.key] if value.key in self.cells else Absent("this family's row does not say where it is")
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name or 'model'}: {type(self.module).__name__}>"


class BoundModel:
    """A row met with a module: `root`, the `blocks`, and what the engine needs to know of the whole."""

    prefix = ""
    in_front = False
    """Whether these blocks all run before those of a text model: see `bind.tower`."""
    vision: BoundModel | None = None
    """The tower in front of this text model, where it takes images."""

    def __init__(self, module: nn.Module, family: Family) -> None:
        self.module, self.family = module, family
        self.config = _text_config(module.config)
        self.blocks: list[Host] = []
        self.runs: list[Any] = []  # open runs, innermost last
        self.standing: Any = None  # edits that stand, if any: see engine.standing
        self.orders: dict[Hashable, dict[Any, int]] = {}  # learned, by a block's build: see engine.order
        self.outer: dict[Any, Any] = {}  # likewise, of what lies outside the blocks
        self.learned = 0  # how many such lessons there have been
        self.matched: dict[str, dict[str, Point | Computed]] = {}  # by a name or pattern that `collect` was given
        self.looped = family.looped
        self.root = Host("model", "", module, "", self, {}, family.cells)
        self._find_model_roles()
        self.blocks += [self._block(index, block) for index, block in enumerate(self._stack()[0])]
        hosts = [self.root, *(host for block in self.blocks for host in (*block.parts.values(), block))]
        self.hosts = {host.path: host for host in hosts}  # a block that is its own MLP answers as the block

    @cached_property
    def names(self) -> dict[str, tuple[Host, str]]:
        """Host and value by the name that `collect` takes: `layers.3.self_attn.attention_output`."""
        hosts = (self.root, *(part for block in self.blocks for part in (block, *block.parts.values())))
        dotted = {host: join(host.name.replace("[", ".").replace("]", ""), "") for host in hosts}
        own = {join(dotted[host], value): (host, value) for host in hosts for value in host.values}
        return own if self.vision is None else own | self.vision.names

    @cached_property
    def start(self) -> Point:
        """Where a call of the whole model begins."""
        return native_point(self, "the start of the forward", "", INPUT, None, _EDGE)

    @cached_property
    def ends(self) -> dict[int, Point]:
        """Where the calls of the model and of its blocks end, by the module's id."""
        named = {"": "the end of the forward"}
        named |= {block.path: f"the end of {block.name}" for block in self.blocks if not self.looped}
        points = [native_point(self, name, path, OUTPUT, None, _EDGE) for path, name in named.items()]
        return {id(point.module): point for point in points}

    def laid_out(self, layout: Layout, place: Place) -> Layout:
        """A value's layout in the words of this stack."""
        return layout

    def pattern_of(self, place: Place) -> Pattern | None:
        """A cell's pattern in the words of this stack."""
        return place.pattern

    def sizes_of(self, host: Host, value: Value) -> Mapping[str, int]:
        """The sizes that a value of a host has."""
        return host.sizes

    def stated(self, path: str, host: Host) -> Any:
        """A number that the row points at: `config.x`, or an attribute under the block such as `self_attn.x`."""
        start, _, rest = path.partition(".")
        origin = self.config if start == "config" else host.module if start == "host" else None
        found = lookup(origin, rest) if origin is not None else lookup((host.block or host).module, path)
        if found is None:
            raise RowDoesNotFit(f"families/{self.family.name}.py: no {path} on {host!r}")
        return found

    def _find_model_roles(self) -> None:
        """Embedding, blocks, final norm and head; `base` first, which the others' cells may begin with."""
        base = self._one("base", self.family.cells["base"], self.module, "")
        prefix = "" if isinstance(base, Absent) else base[1]
        self.root.roles["base"] = base
        for role, host in ROLES.items():
            if host == "model" and role != "base":
                cell = _rooted(self.family.cells[role], prefix)
                self.root.roles[role] = self._one(role, cell, self.module, "")

    def _stack(self) -> tuple[Any, str]:
        """The container of the blocks, and its path."""
        layers = self.root.roles["layers"]
        if isinstance(layers, Absent):
            raise RowDoesNotFit(f"families/{self.family.name}.py: a family needs a block stack")
        return layers

    def _block(self, index: int, module: nn.Module) -> Host:
        """One block with its parts, under the cells of the row and, over those, of every kind that this block meets."""
        kinds = [kind for kind in self.family.kinds if meets(kind.when, module, self.config, index)]
        cells: Mapping[str, Cell] = self.family.cells
        for kind in kinds:
            cells = {**cells, **kind.cells}
        names = tuple(kind.name for kind in kinds)
        block = Host(
            "block",
            f"{self.prefix}layers[{index}]",
            module,
            f"{self._stack()[1]}.{index}",
            self,
            {},
            cells,
            index,
            kinds=names,
        )
        for name in (name for name, host in ROLES.items() if host == "block"):
            block.roles[name] = self._one(name, cells[name], module, block.path, block)
        for part in ("self_attn", "linear_attn", "mlp"):
            role = block.roles[part]
            if not isinstance(role, Absent):
                block.parts[part] = self._part(part, role[0], role[1], block, cells)
        return block

    def _part(self, kind: str, module: nn.Module, path: str, block: Host, cells: Mapping[str, Cell]) -> Host:
        part = Host(kind, f"{block.name}.{kind}", module, path, self, {}, cells, block.index, block, block.kinds)
        for role in (name for name, host in ROLES.items() if host == kind):
            part.roles[role] = self._one(role, cells[role], module, path, block)
        return part

    def _one(self, role: str, cell: Cell, start: nn.Module, path: str, block: Host | None = None) -> Any:
        """The first alternative of a role's cell that the live model has."""
        for alternative in cell if isinstance(cell, tuple) else (cell,):
            if isinstance(alternative, Absent):
                return alternative
            alternative = alternative if block is None else alternative.replace("#", str(block.index))
            origin, where, rest = start, path, alternative
            head, _, tail = alternative.partition(".")
            if head == "root":
                origin, where, rest = self.module, "", tail
            elif head == "block" and block is not None:
                origin, where, rest = block.module, block.path, tail
            found = lookup(origin, rest)
            if isinstance(found, nn.Module):
                return found, join(where, rest)
        tried = " or ".join(str(one) for one in (cell if isinstance(cell, tuple) else (cell,)))
        raise RowDoesNotFit(
            f"families/{self.family.name}.py says {role} is at {tried}, but {type(start).__name__} "
            f"({path or 'the model'}) has no such module; it has: {', '.join(name for name, _ in start.named_children())}"
        )


def _rooted(cell: Cell, base: str) -> Cell:
    """Replace a leading `base.` by the path that plays it."""
    if isinstance(cell, tuple):
        return tuple(one if isinstance(one, Absent) else str(_rooted(one, base)) for one in cell)
    return join(base, cell[5:]) if isinstance(cell, str) and cell.startswith("base.") else cell


def _text_config(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def bind(module: nn.Module, family: Family) -> BoundModel:
    """Meet a row with a live module; `RowDoesNotFit` names what is not where the row says."""
    return BoundModel(module, family)


__all__ = ["VALUES", "BoundModel", "Host", "bind"]
