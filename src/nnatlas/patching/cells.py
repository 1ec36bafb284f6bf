"""Cells: the places of a sweep, and which part of a value each of them patches.

A sweep goes over some of the axes layer, position and head.  What it does not go over is patched whole: `layer x head`
patches a head at every position.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.model.asked import several
from nnatlas.values import VALUES

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

OVER = ("layer", "position", "head")
AXES = {"position": ("seq", "query"), "head": ("num_heads", "num_kv_heads")}
"""Axes of layouts that a sweep's axes lie along."""


class Cell(NamedTuple):
    """One patch: of which block's value, at which position and head; None is all of them."""

    layer: int
    position: int | None = None
    head: int | None = None


class Patch(NamedTuple):
    """A cell of one of several pairs of prompts."""

    pair: int
    cell: Cell


@dataclass(frozen=True)
class Swept:
    """A value as it occurs through the blocks: its keys (the same name may hang on two kinds of mixer) and its axes."""

    keys: tuple[str, ...]
    axes: tuple[str, ...]
    over: tuple[str, ...]

    @property
    def patterns(self) -> list[str]:
        """What `collect` is asked for."""
        return [f"layers.*.{key.removeprefix('block.')}" for key in self.keys]

    @property
    def leaving(self) -> bool:
        """Whether it is what leaves the block, so that the block itself need not be run again."""
        return self.keys == ("block.layer_output",)

    @property
    def before_mlp(self) -> bool:
        """Whether MLPs may be run on some tokens only: nothing in them is patched."""
        return not any(key.startswith("mlp.") or "mlp_" in key for key in self.keys)

    def cells(self, values: Mapping[int, Tensor]) -> Iterator[Cell]:
        """Every cell, layer by layer; `values` are one row of the value in each block, without the batch axis."""
        for layer, value in values.items():
            counts = [range(value.shape[self.along(axis)]) if axis in self.over else (None,) for axis in OVER[1:]]
            yield from (Cell(layer, *at) for at in product(*counts))

    def along(self, axis: str) -> int:
        """Where a sweep's axis lies among a row's; -1 if the value has none."""
        return next((at for at, name in enumerate(self.axes[1:]) if name in AXES[axis]), -1)

    def index(self, cell: Cell, length: int) -> tuple[Any, ...]:
        """Where a cell lies in a row; positions count from the end, so they hold whatever is cut off in front."""
        at: dict[int, Any] = {}
        if cell.position is not None:
            at[self.along("position")] = cell.position - length
        if cell.head is not None:
            at[self.along("head")] = cell.head
        return tuple(at.get(axis, slice(None)) for axis in range(len(self.axes) - 1))


def end_of(source: Tensor, like: Tensor) -> Tensor:
    """The end of a row, as long along each axis as a row of a run that begins later."""
    for axis, (own, wanted) in enumerate(zip(source.shape, like.shape, strict=True)):
        source = source.narrow(axis, own - wanted, wanted)
    return source


def axes_over(over: str | Sequence[str]) -> tuple[str, ...]:
    """The axes that `over` names, such as `"layer x head"`.

    Raises:
        InputError: an axis is unknown or named twice, or layers are not among them.
    """
    named = re.split(r"\s+x\s+|\s*[×,]\s*", over.strip()) if isinstance(over, str) else several(over)
    if "layer" not in named or len(set(named)) < len(named) or not set(named) <= set(OVER):
        raise InputError(f"over={over!r}: name layer, and position or head or both, such as 'layer x position'")
    return tuple(sorted(named, key=OVER.index))


def swept(model: StandardizedTransformer, value: str, over: str | Sequence[str]) -> Swept:
    """Find a value of blocks by its name, with or without its host, and check that it has the axes gone over.

    Raises:
        InputError: no block has a value of that name, or it has no axis that the sweep goes over.
    """
    keys = [
        key
        for key, known in VALUES.items()
        if known.host != "model" and value in (known.name, key, key.removeprefix("block."))
    ]
    if not keys:
        names = [known.name for known in VALUES.values() if known.host != "model"]
        near = difflib.get_close_matches(str(value), names, 3) or [
            "layer_output",
            "attention_output",
            "mlp_output",
            "...",
        ]
        raise InputError(f"{value!r} is no value of a block; there is {', '.join(dict.fromkeys(near))}")
    rows = model.support().rows
    layouts = {key: rows[key].layout.axes for key in keys if key in rows and not rows[key].nowhere}
    layouts = layouts or {keys[0]: VALUES[keys[0]].layout.axes}
    able = [Swept((key,), axes, axes_over(over)) for key, axes in layouts.items()]
    able = [one for one in able if all(one.along(axis) >= 0 for axis in one.over[1:])]
    if not able:
        shown = " or ".join(f"{key}: {' '.join(axes) or 'axes of the family'}" for key, axes in layouts.items())
        raise InputError(f"{value} has no axis for some of {over!r} ({shown})")
    alike = tuple(one.keys[0] for one in able if one.axes == able[0].axes)
    return Swept(alike, able[0].axes, able[0].over)


def node(run: Any, name: str) -> tuple[Any, str]:
    """The node that a value hangs on in a run, and the value's own name there: `layers.3.mlp.mlp_output`."""
    *path, last = name.split(".")
    step = lambda at, part: at[int(part)] if part.isdigit() else getattr(at, part)
    return reduce(step, path, run), last
