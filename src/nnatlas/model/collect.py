"""Many values from one forward, in any order: no body waits, each tap keeps its value, the last one ends the forward."""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import fnmatch
import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from greenlet import greenlet
from torch import Tensor, nn

from nnatlas.bind.cells import unavailable
from nnatlas.bind.paths import join
from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints
from nnatlas.engine.crossing import Side
from nnatlas.engine.derived import DERIVED
from nnatlas.engine.held import Handed
from nnatlas.engine.run import Run
from nnatlas.errors import InputError, Unavailable
from nnatlas.model.node import native_side
from nnatlas.model.vision import refuse_without_images
from nnatlas.places import Absent
from nnatlas.values import RARE, VALUES


class Collected(Mapping[str, Any]):
    """Values by name, `found["layers.3.layer_output"]`, or as attributes, `found.layers[3].layer_output`."""

    def __init__(self, values: Mapping[str, Any], blocks: int, prefix: str = "") -> None:
        self._values, self._blocks, self._prefix = values, blocks, prefix

    def __getitem__(self, name: str | int) -> Any:
        full = _counted_from_the_end(self._blocks, self._prefix + plain_name(str(name)))
        try:
            return self._below(full.removeprefix(self._prefix))
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._below(name)

    def _below(self, name: str) -> Any:
        full = self._prefix + name
        if full in self._values:
            return self._values[full]
        if any(key.startswith(f"{full}.") for key in self._values):
            return Collected(self._values, self._blocks, f"{full}.")
        raise AttributeError(f"{full} was not collected; there is {', '.join(self._values)}")

    def __iter__(self) -> Iterator[str]:
        return (key.removeprefix(self._prefix) for key in self._values if key.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name.partition(".")[0] for name in self)})

    def __repr__(self) -> str:
        shown = (f"{name}: {list(v.shape) if isinstance(v, Tensor) else v}" for name, v in self.items())
        return "Collected(\n" + "".join(f"  {line}\n" for line in shown) + ")"


def plain_name(name: str) -> str:
    """`layers[3].x` and `layers.3.x` are one name."""
    return name.replace("[", ".").replace("]", "")


def collect(model: BoundModel, batch: Mapping[str, Any], patterns: list[str]) -> Collected:
    """Run one forward and keep the named values, in the order in which they were asked for."""
    points = wanted_points(model, patterns)
    if model.vision is not None:
        refuse_without_images(points.values(), batch)
    gathering = Gathering(model)
    for point in points.values():
        gathering.need(point)
    gathering.run_forward(lambda: model.module(**batch))
    return Collected({name: gathering.value(point) for name, point in points.items()}, len(model.blocks))


def wanted_points(model: BoundModel, patterns: list[str]) -> dict[str, Point | Computed]:
    """Points by plain name for each name or pattern; a pattern takes the blocks that have the value."""
    found: dict[str, Point | Computed] = {}
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"values are asked for by name, such as 'layers.*.layer_output', not by {pattern!r}")
        if pattern not in model.matched:
            model.matched[pattern] = _points(model, _counted_from_the_end(len(model.blocks), plain_name(pattern)))
        found |= model.matched[pattern]
    return found


def _points(model: BoundModel, name: str) -> dict[str, Point | Computed]:
    """The points that one plain name or pattern stands for."""
    if name in model.names:
        host, value = model.names[name]
        return {name: host.point(value)}
    if name.endswith((".input", ".output")) and (native := _natives(model, name)):
        return native
    matches, absent = _match(model, name)
    if not matches and absent is not None:
        raise absent
    if not matches:
        _refuse_missing_part(model, name)
        near = difflib.get_close_matches(name, model.names, 3)
        raise InputError(f"no value is called {name!r}" + (f"; near: {', '.join(near)}" if near else ""))
    return matches


def _refuse_missing_part(model: BoundModel, name: str) -> None:
    """`Unavailable` with the reason if a value is asked of a part that its block does not have."""
    found = re.fullmatch(r"layers\.(\d+|\*)\.(self_attn|linear_attn|mlp)\.(\w+)", name)
    if found is None or f"{found[2]}.{found[3]}" not in VALUES | RARE:
        return
    blocks = model.blocks if found[1] == "*" else model.blocks[int(found[1]) : int(found[1]) + 1]
    for block in blocks:
        if isinstance(bound := block.roles[found[2]], Absent):
            raise unavailable(block, f"{found[2]}.{found[3]}", bound.reason)


def _match(model: BoundModel, pattern: str) -> tuple[dict[str, Point | Computed], Unavailable | None]:
    """The values a pattern fits, part by part; if any host lacks one, its reason."""
    matches: dict[str, Point | Computed] = {}
    absent = None
    parts = pattern.split(".")
    for name, (host, value) in model.names.items():
        own = name.split(".")
        if len(own) == len(parts) and all(map(fnmatch.fnmatchcase, own, parts)):
            try:
                matches[name] = host.point(value)
            except Unavailable as why:
                absent = why
    return matches, absent


def _counted_from_the_end(count: int, name: str) -> str:
    """`layers.-1.x` as the last block's, of so many."""
    return re.sub(r"^layers\.(-\d+)(?=\.|$)", lambda found: f"layers.{count + int(found[1])}", name)


def _natives(model: BoundModel, name: str) -> dict[str, Point | Computed]:
    """The own inputs or outputs of the modules that a name or pattern fits, each by the name that it was asked by."""
    asked, _, side = name.rpartition(".")
    paths, parts = _paths(model), asked.split(".")
    if asked in paths:
        return {name: native_side(model, paths[asked], side)}
    fitting = (
        own
        for own in paths
        if len(own.split(".")) == len(parts) and all(map(fnmatch.fnmatchcase, own.split("."), parts))
    )
    return {f"{own}.{side}": native_side(model, paths[own], side) for own in fitting}


def _paths(model: BoundModel) -> dict[str, str]:
    """The native path of every module that is called, by each name it has: its own, or one below a standard name."""
    found: dict[str, str] = {}
    for host in model.hosts.values():
        standard = plain_name(host.name)
        below = {
            name: join(host.path, name)
            for name, part in host.module.named_modules()
            if not isinstance(part, nn.ModuleList)
        }
        roles = {role: bound[1] for role, bound in host.roles.items() if isinstance(bound, tuple)}
        found |= {join(standard, name): path for name, path in (roles | below).items()}
    return {name: path for name, path in found.items() if name and path}


class _Enough(BaseException):
    """Ends a forward once everything wanted is there; not an Exception, so that no module's handler swallows it."""


class Gathering(Run):
    """A run without a body: what is reached is kept, and the forward ends after the last."""

    def __init__(self, model: BoundModel) -> None:
        super().__init__(model, lambda: None)
        self._by_site: dict[Hashable, list[Point]] = {}
        self._values: dict[str, Any] = {}
        self._derived: dict[str, Computed] = {}  # not yet computed; what one needs comes before it
        self.wanted: set[Hashable] = set()

    def need(self, point: Point | Computed) -> None:
        """Have a point kept, or what a derived value is computed from."""
        if isinstance(point, Computed):
            for part in DERIVED[point.function].needs(point) or [self.model.start]:
                self.need(part)
            self._derived[point.name] = point
            return
        if point.after is not None:
            self.need(point.after)
        known = self._by_site.setdefault(point.site, [])
        if all(other.name != point.name for other in known):
            known.append(point)
        self.wanted.add(point.site)

    def run_forward(self, call: Any) -> None:
        """Call the model in a greenlet of its own: where a hook of the user's collects, the forward around it is another's."""
        complaints.refuse_checkpointing(self.model.module)
        self.forward, side = greenlet(call), Side()
        self.forward.gr_context = contextvars.copy_context()
        try:
            if self.model.standing is not None:
                self.model.standing.welcome(self)
            for points in self._by_site.values():
                self._taps.wait(self, points[0])
            with contextlib.suppress(_Enough):
                self.forward.switch()
        finally:
            self.forward = None
            self._taps.clear()
            self.watches.clear()
            side.restore()  # a forward that ends early may leave function modes behind
        for site in self.wanted:
            raise complaints.never_reached(self._by_site[site][0], "its end")

    def misses(self, end: Point) -> bool:
        return False

    def wants(self, site: Hashable) -> bool:
        if site not in self.wanted or self.depth > 1:
            return False
        after = self._by_site[site][0].after
        return after is None or after.site not in self.wanted

    def reach(self, site: Hashable, payload: Any, at: Point | None = None) -> None:
        for point in self._by_site[site]:
            self._values[point.name] = Handed(point, payload.get(point.item), self.rows).value
        self._derive()
        self.wanted.discard(site)
        if not self.wanted:
            raise _Enough

    def value(self, point: Point | Computed) -> Any:
        """What was kept at a point, or computed there from what was kept."""
        return self._values[point.name]

    def _derive(self) -> None:
        """Compute what can be by now: later the forward may have filled a cache or written over a state."""
        for point in tuple(self._derived.values()):
            needs, compute = DERIVED[point.function]
            parts = needs(point)
            if all(part.name in self._values for part in parts):
                self._values[point.name] = compute(self, point, *(self._values[part.name] for part in parts))
                del self._derived[point.name]
