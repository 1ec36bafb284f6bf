"""A point: one value at one host of one live model, ready for the engine to stop at.

The engine sees nothing of families: a point says which module to tap, at which stage of its call, which piece of the call
to hand out, and how to turn it into the value and back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn

from nnatlas.bind.codec import Codec
from nnatlas.bind.paths import lookup
from nnatlas.layouts import Layout
from nnatlas.places import Operation, Place
from nnatlas.values import OF_IMAGES, Value

INPUT, OUTPUT, ATTENTION, OPERATION, CALL = "in", "out", "attention", "operation", "call"


class After(NamedTuple):
    """The item that stands for a module's argument once its call is over, such as a cache that the call has filled."""

    argument: str


@dataclass(slots=True, eq=False)
class Point:
    """Where and how one value is had.  `stage` is a module's `in` or `out`, `attention`, `operation` or `call`.

    `step` tells apart the stops within one stage: the attention call's `inputs`, `scores`, `probabilities` and `out`, or
    the operation's or call's function, number and side.  Points of one `site` are served at one stop, in any order.
    """

    name: str
    value: Value
    layout: Layout
    sizes: Mapping[str, int]
    place: Place | None
    module: nn.Module
    path: str
    above: tuple[nn.Module, ...]
    stage: str
    step: str = ""
    item: Any = None
    codec: Codec = field(default_factory=Codec)
    block: int | None = None
    block_module: nn.Module | None = None
    read_only: str = ""
    operation: Operation | None = None
    after: Point | None = None
    watched: tuple[tuple[nn.Module, frozenset[str]], ...] = ()
    calling: tuple[tuple[nn.Module, frozenset[str]], ...] = ()
    inside: str = ""  # the module's path in its block, or in the model
    site: Hashable = None
    armed: tuple[nn.Module, ...] = ()  # modules that must look at hooks for the stop to work: see engine.taps
    ahead: bool = False  # its tap goes before hooks that are on the module already: transformers reads towers by such
    home: Any = None  # where the module stands in the model: see `_home`
    where: Any = None  # its place in the forward's order, and how much had been learned when that was looked up
    seen: int = -1

    @property
    def in_tower(self) -> bool:
        """Whether a run has it only where it was given images."""
        return self.ahead or self.value.key in OF_IMAGES

    def __post_init__(self) -> None:
        self.site = (id(self.module), self.stage, self.step)
        self.inside = self.inside or self.path
        self.home = self._home() if self.above else None
        own = () if self.above and self.stage in (INPUT, OUTPUT) else (self.module,)
        self.armed = (*self.above, *own)

    def _home(self) -> tuple[Mapping[str, Any], str] | None:
        """The table of children that the module stands in and its name there; None where a wrapper only passes it on."""
        parent, _, leaf = self.path.rpartition(".")
        children = getattr(lookup(self.above[0], parent), "_modules", {})
        passed_on = children.get(leaf) is not self.module and lookup(self.above[0], self.path) is self.module
        return None if passed_on else (children, leaf)

    @property
    def stands(self) -> bool:
        """Whether its module is still where it was found, as far as that can be told."""
        return self.home is None or self.home[0].get(self.home[1]) is self.module


@dataclass(slots=True, eq=False)
class Computed:
    """A derived value: a named function over other values of the same run."""

    name: str
    value: Value
    layout: Layout
    sizes: Mapping[str, int]
    function: str
    arguments: tuple[str, ...]
    host: Any  # bind.tree.Host, which makes points itself
    read_only: str = ""

    @property
    def in_tower(self) -> bool:
        """Whether it is computed in what reads images, in front of the text model."""
        return bool(self.host.owner.in_front)
