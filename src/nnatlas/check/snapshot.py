"""One forward in which every value is kept twice: as it was handed out, and cloned at that moment.

A wrong row must not end the check: what cannot be read is written down by name, and the rest goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nnatlas.bind.cells import name_of
from nnatlas.bind.points import ATTENTION, Computed, Point
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.engine.derived import DERIVED
from nnatlas.engine.held import Handed
from nnatlas.errors import NeverReached, Unavailable
from nnatlas.interior.attention import eager_of, interface_of
from nnatlas.model.collect import Gathering
from nnatlas.values import Value

STEP_BY_STEP = ("scores", "probabilities")


class Reading(NamedTuple):
    """One value at one host, and its point."""

    host: Host
    value: Value
    point: Point | Computed

    @property
    def label(self) -> str:
        return name_of(self.host, self.value)

    @property
    def where(self) -> str:
        return (self.host.block or self.host).name or "model"

    @property
    def axes(self) -> tuple[str, ...]:
        return self.point.layout.axes

    @property
    def bare(self) -> list[Point]:
        """The points that the forward must come to for this value."""
        return bare_points(self.point)

    @property
    def changes_course(self) -> bool:
        """Whether reading it may replace the configured attention by its step-by-step form."""
        return any(bool(p.watched) or (p.stage == ATTENTION and p.step in STEP_BY_STEP) for p in self.bare)


def bare_points(point: Point | Computed) -> list[Point]:
    """A point itself, or those that a computed value needs."""
    if isinstance(point, Point):
        return [point]
    needs = DERIVED[point.function].needs(point) or [point.host.owner.start]  # of nothing: known once the call begins
    return [bare for part in needs for bare in bare_points(part)]


def _out_of_reach(point: Point) -> str | None:
    """Why no tap can be put at a point inside the attention call, or None."""
    if point.stage != ATTENTION:
        return None
    try:
        interface_of(point.module)
        if point.step in STEP_BY_STEP:
            eager_of(point.module)
    except Unavailable as why:
        return why.reason
    return None


class Snapshot(Gathering):
    """`copies` holds clones by point name, `faults` what could not be read and why, `order` the points as they came."""

    def __init__(self, model: BoundModel) -> None:
        super().__init__(model)
        self.copies: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self.order: dict[str, int] = {}

    def take(self, points: Iterable[Point | Computed], call: Callable[[], Any]) -> Snapshot:
        """Run `call` to its end and keep every point."""
        for point in points:
            why = next(filter(None, map(_out_of_reach, bare_points(point))), None)
            if why is None:
                self.need(point)
            else:
                self.faults |= {bare.name: why for bare in bare_points(point)}
        with contextlib.suppress(NeverReached), torch.no_grad():
            self.run_forward(call)
        for site in self.wanted:
            for point in self._by_site[site]:
                self.faults[point.name] = "the forward never came to it"
        return self

    def reach(self, site: Hashable, payload: Any, at: Point | None = None) -> None:
        """Keep what is there and what can be derived by now; go on whatever comes."""
        for point in self._by_site[site]:
            self.order.setdefault(point.name, len(self.order))
            self._keep(point, partial(self._taken, point, payload))
        self._derive()
        self.wanted.discard(site)

    def _taken(self, point: Point, payload: Any) -> Any:
        return Handed(point, payload.get(point.item), self.rows).value

    def _keep(self, point: Point | Computed, read: Callable[[], Any]) -> None:
        """Read a value and keep it twice: as it was handed out, and as a copy, to see later whether anything wrote into it."""
        try:
            value = read()
        except Exception as fault:  # noqa: BLE001  whatever a wrong row provokes is this value's fault, not the check's
            self.faults[point.name] = f"{type(fault).__name__}: {fault}"
            return
        self._values[point.name] = value
        self.copies[point.name] = value.clone() if isinstance(value, Tensor) else value
        if value is None:
            self.faults[point.name] = "there is no tensor at this place"

    def _derive(self) -> None:
        for point in tuple(self._derived.values()):
            needs, compute = DERIVED[point.function]
            parts = [self._values.get(part.name) for part in needs(point)]
            if all(part is not None for part in parts):
                del self._derived[point.name]
                self._keep(point, partial(compute, self, point, *parts))

    def fault(self, point: Point | Computed) -> str | None:
        """Why a value could not be read, or None."""
        names = (point.name, *(bare.name for bare in bare_points(point)))
        return next((self.faults[name] for name in names if name in self.faults), None)

    def copy(self, point: Point | Computed) -> Any:
        """The value as it was when it was read; None if it could not be."""
        return None if self.fault(point) is not None else self.copies.get(point.name)

    def kept(self, point: Point) -> Any:
        """The tensor that was handed out, as it is now."""
        return self._values.get(point.name)

    def place(self, reading: Reading) -> int:
        """Where a value comes in the forward."""
        return max((self.order.get(bare.name, -1) for bare in reading.bare), default=-1)
