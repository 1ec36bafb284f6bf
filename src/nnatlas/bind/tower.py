"""The tower in front of a text model, bound: a stack of blocks of its own under the wrapper's root, and its projector.

Tower blocks are hosts like any other, named `vision.layers[i]`.  They run before the text model's blocks, in an order that
the engine learns in the first run with images.  What a text model calls `batch` and `seq` has other names here, which the
tower's row states.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nnatlas.bind import sizes as sizing
from nnatlas.bind.paths import lookup
from nnatlas.bind.points import Point
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.errors import RowDoesNotFit
from nnatlas.families import towers
from nnatlas.families._row import TOWER_ROLES, Family
from nnatlas.families._wrapper import Wrapper
from nnatlas.layouts import Layout
from nnatlas.places import Absent, Attention, Operation, Pattern, Place, parse
from nnatlas.values import VISION_HOSTS, Value

OF_TEXT = ("image_features", "image_token_mask", "added_features", "image_stream")
"""Values of the tower that have the text model's sizes."""
NOUGHTS = (
    "noughts enter the first block at the image's places, and the image itself further on: see image_stream of blocks"
)


class BoundTower(BoundModel):
    """A tower row and a wrapper row met with a module: `root` is `model.vision`, `projector` is `model.projector`."""

    prefix = "vision."
    in_front = True

    def __init__(self, text: BoundModel, wrapper: Wrapper, row: Family) -> None:
        self.module, self.text, self.wrapper = text.module, text, wrapper
        joined = {name: {**getattr(row, name), **getattr(wrapper, name)} for name in ("cells", "breaks", "notes")}
        self.family = row.remade(**joined)
        if wrapper.enters and 0 not in self._entered():
            self.family = self.family.remade(cells={**self.family.cells, "vision.image_features": Absent(NOUGHTS)})
        self.config = lookup(text.module.config, wrapper.config)
        self.blocks, self.runs, self.looped = [], text.runs, False
        module, path = self._one("vision", wrapper.vision, text.module, "")
        self.root = Host("vision", "vision", module, path, self, {}, self.family.cells)
        self._find_tower_roles()
        layers = self.root.roles["layers"]
        stack: Any = () if isinstance(layers, Absent) else layers[0]
        self.blocks += [self._block(at, block) for at, block in enumerate(stack)]
        last = self.blocks[-1] if self.blocks else None
        self.root.roles["last"] = Absent("this tower has no blocks") if last is None else (last.module, last.path)
        self.root.__dict__["whole"] = self._whole()
        self.projector = self._projector()
        self.hosts = {host.path: host for host in self._hosts()}
        self.additions = self._additions()

    def _additions(self) -> list[Point]:
        """Where more of the image enters the stream, one place behind each of some blocks of the text model."""
        adds = self.wrapper.adds
        found = lookup(self.module.config, self.wrapper.added_after) if adds else None
        added = [
            (block, "added_features", adds.format(at)) for at, block in enumerate(self.text.blocks[: len(found or ())])
        ]
        entered = [(before, self.wrapper.enters.format(at)) for at, before in enumerate(self._entered()) if before]
        added += [(self.text.blocks[before - 1], "image_stream", cell) for before, cell in entered]
        return [self._addition(*one) for one in added]

    def _entered(self) -> list[int]:
        """The blocks before which the image enters the stream, in their order."""
        fields = [lookup(self.module.config, field) or () for field in self.wrapper.enters_before]
        return sorted({one[-1] if isinstance(one, list | tuple) else one for field in fields for one in field})

    def _addition(self, block: Host, name: str, cell: str) -> Point:
        """The place of `layers[at].added_features`: in a call that the text model makes between two blocks."""
        block.cells = {**block.cells, f"block.{name}": cell}
        block.__dict__.pop("values", None)
        base, source = self.text.root.roles["base"], parse(cell).source
        counted = (source.function,) if isinstance(source, Operation) else source.functions  # type: ignore[union-attr]
        kind = "operations" if isinstance(source, Operation) else "calls"
        block.__dict__[kind] = [*getattr(block, kind), (base[1], base[0], frozenset(counted))]  # type: ignore[index]
        point = block.point(name)
        assert isinstance(point, Point)
        after = self.text.blocks[(block.index or 0) + 1 :][:1]
        point.block, point.block_module = (after[0].index, after[0].module) if after else (None, None)
        point.inside = ""  # in front of all that the next block does
        return point

    def _find_tower_roles(self) -> None:
        root = self.root
        for role in TOWER_ROLES:
            root.roles[role] = self._one(role, self.family.cells[role], root.module, root.path)
        root.roles["embed_tokens"] = Absent("a tower embeds patches, not tokens")

    def _projector(self) -> Host | None:
        found = self._one("projector", self.wrapper.projector, self.module, "")
        if isinstance(found, Absent):
            self.no_projector = found.reason
            return None
        module, path = found
        host = Host("projector", "projector", module, path, self, {}, self.family.cells)
        host.__dict__["whole"] = self.root.whole
        return host

    def _hosts(self) -> list[Host]:
        """Every host, the outer ones last, which answer for a module that plays two parts."""
        inner = [host for block in self.blocks for host in (*block.parts.values(), block)]
        return [*([self.projector] if self.projector is not None else []), *inner, self.root]

    def _whole(self) -> dict[str, int]:
        """Sizes that hold for every block: the width from the blocks themselves, since configs disagree on its name."""
        part = self.blocks[0].parts.get("self_attn") if self.blocks else None
        o_proj = part.roles["o_proj"] if part is not None else None
        wide = sizing.width_out(o_proj[0]) if isinstance(o_proj, tuple) else None
        found = {
            "num_layers": len(self.blocks),
            "hidden_size": wide or sizing.setting(self.config, "hidden_size", "embed_dim", "width"),
            "patch_size": _side(sizing.setting(self.config, "patch_size")),
            "image_size": _side(sizing.setting(self.config, "image_size")),
        }
        return {name: size for name, size in found.items() if isinstance(size, int)}

    @property
    def names(self) -> dict[str, tuple[Host, str]]:
        """Host and value by the name that `collect` takes: `vision.layers.0.layer_output`."""
        dotted = {host: host.name.replace("[", ".").replace("]", "") for host in self._hosts()}
        return {f"{name}.{value}": (host, value) for host, name in dotted.items() for value in host.values}

    @property
    def image_token(self) -> int | None:
        """The id that stands for the image in the token stream."""
        for config in (self.text.module.config, self.text.config):
            found = lookup(config, self.wrapper.image_token)
            if isinstance(found, int):
                return found
        return None

    @property
    def counts_positions(self) -> bool:
        """Whether the wrapper works out positions itself, by row and column of the image."""
        return any(hasattr(module, "get_rope_index") for module in (self.module, lookup(self.module, "model")))

    @property
    def reads(self) -> tuple[str, ...]:
        """What the projector is fed from, as names under `model.vision`: `layers[1].layer_output`, `tower_output`."""
        return tuple(dict.fromkeys(name for said in self.wrapper.reads for name in self._read_by(said)))

    def _read_by(self, said: str) -> list[str]:
        kind, _, field = said.partition(".")
        if kind not in ("config", "blocks"):
            return [re.sub(r"\[-(\d+)\]", lambda found: f"[{len(self.blocks) - int(found[1])}]", said)]
        wanted = lookup(self.text.module.config, field)
        past = 1 if kind == "blocks" else 0  # of the hidden states, the first enters the first block
        numbers = wanted if isinstance(wanted, list | tuple) else [wanted]
        firsts = (one[0] if isinstance(one, list | tuple) else one for one in numbers)  # of pairs, the tower's block
        return list(dict.fromkeys(self._hidden_state(at + past) for at in firsts))

    def _hidden_state(self, at: int) -> str:
        """An index into the tower's hidden states, of which the first enters its first block."""
        count = len(self.blocks)
        block = (at % (count + 1)) - 1
        return "layers[0].layer_input" if block < 0 else f"layers[{block}].layer_output"

    # -- in the words of this tower ----------------------------------------------------------------------------------

    def _word(self, axis: str, inside: bool) -> str:
        words = self.family.axes
        return words.get(f"attention {axis}", words.get(axis, axis)) if inside else words.get(axis, axis)

    def laid_out(self, layout: Layout, place: Place) -> Layout:
        """A text layout with this tower's axes; one that has no name here is left out."""
        if layout.name in ("Tokens", "ImageTokens"):
            return layout
        if layout.name == "Pattern" and "pattern batch" in self.family.axes:
            return Layout(layout.name, (self.family.axes["pattern batch"], *layout.axes[1:]))
        inside = isinstance(place.source, Attention) and layout.name != "Groups"
        return Layout(layout.name, tuple(word for axis in layout.axes for word in self._word(axis, inside).split()))

    def pattern_of(self, place: Place) -> Pattern | None:
        """The same for the axes of a cell's pattern."""
        if place.pattern is None:
            return None
        inside = isinstance(place.source, Attention)
        named = [tuple(self._renamed(part, inside) for part in group) for group in place.pattern.groups]
        return place.pattern.remade(groups=tuple(one for group in named for one in _apart(group)))

    def _renamed(self, part: tuple[str, ...], inside: bool) -> tuple[str, ...]:
        return tuple(word for axis in part for word in self._word(axis, inside).split())

    def sizes_of(self, host: Host, value: Value) -> Mapping[str, int]:
        """What enters the token stream has the text model's sizes."""
        return self.text.root.sizes if value.name in OF_TEXT else host.sizes


def _apart(group: tuple[tuple[str, ...], ...]) -> list[tuple[tuple[str, ...], ...]]:
    """One native axis, none where the tower has none, or several where one axis of a text model is several here."""
    part = group[0]
    if len(group) == 1 and part == ("rows", "columns"):
        return [((axis,),) for axis in part]
    return [group] if any(group) else []


def _side(size: Any) -> Any:
    """One side of a square."""
    return size[0] if isinstance(size, list | tuple) and size else size


def row_of(wrapper: Wrapper, config: Any) -> Family | None:
    """The tower row for a wrapper's vision config."""
    return towers.find(wrapper.tower or getattr(lookup(config, wrapper.config), "model_type", ""))


def bind_tower(text: BoundModel, wrapper: Wrapper) -> None:
    """Put a tower in front of a bound text model, or the reason why there is none: `model.vision`, `model.projector`."""
    row = row_of(wrapper, text.module.config)
    if row is None:
        kind = getattr(lookup(text.module.config, wrapper.config), "model_type", None)
        return refuse(text, f"its tower's type {kind!r} has no row yet" if kind else "it was built without a tower")
    try:
        tower = BoundTower(text, wrapper, row)
    except RowDoesNotFit as fault:
        return refuse(text, str(fault))
    text.vision = tower
    text.hosts |= tower.hosts
    text.root.parts["vision"] = tower.root
    if tower.projector is not None:
        text.root.parts["projector"] = tower.projector
    else:
        text.root.roles["projector"] = Absent(tower.no_projector)
    text.__dict__.pop("names", None)
    return None


def refuse(text: BoundModel, reason: str) -> None:
    """Say why a model has no tower to look into."""
    for host in VISION_HOSTS:
        text.root.roles[host] = Absent(reason)


__all__ = ["BoundTower", "bind_tower", "refuse", "row_of"]
