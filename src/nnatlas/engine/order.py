"""Where a forward stands, and whether a place lies before or behind it.

Blocks run in their order, the embedding before them, norm and head after.  Everything else is learned, not declared: the
first run that asks for something inside a block, and the first run at all, write down in which order modules start and end
and attention calls pass their steps.  Blocks of one build share one order.  What is not known for certain is not claimed:
the forward then goes on to the end of the block, and judges there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from greenlet import getcurrent
from torch import nn

from nnatlas.bind.points import ATTENTION, INPUT, OUTPUT, Computed, Point
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.engine.taps import INSTALLERS, PROGRESS
from nnatlas.errors import Unavailable

if TYPE_CHECKING:
    from nnatlas.engine.run import Run

START, END = float("-inf"), float("inf")
ENTRY, BEFORE, BLOCKS, AFTER, RETURN = range(5)
"""The phases of a forward: its arguments, what comes before the blocks, the blocks, what comes after, its result."""
_DECLARED = {"embed_tokens": (BEFORE, 0.0), "norm": (AFTER, 0.0), "lm_head": (AFTER, 2.0)}

Event = tuple[str, str, str]
"""Module path (in the block, or in the model), stage, step."""


class Position(NamedTuple):
    """A place in the forward: phase, block, and the first and last event it may fall on."""

    phase: int
    block: int
    first: float
    last: float


def position(model: BoundModel, point: Point) -> Position | None:
    """Where a point lies, or None where the forward's order says nothing about it."""
    if point.seen != model.learned:
        point.seen, point.where = model.learned, _find(model, point)
    return point.where


def _find(model: BoundModel, point: Point) -> Position | None:
    if point.module is model.module and point.stage in (INPUT, OUTPUT):
        return Position(ENTRY if point.stage == INPUT else RETURN, 0, 0, 0)
    if model.looped:
        return None
    if point.block is not None:
        return Position(BLOCKS, point.block, *_in_block(model, point))
    if point.after is not None:
        return Position(AFTER, 0, START, START)
    return model.outer.get(event(point)) or _declared(model, point) or _within(model, point)


def _declared(model: BoundModel, point: Point) -> Position | None:
    for role, (phase, at) in _DECLARED.items():
        bound = model.root.roles.get(role)
        if isinstance(bound, tuple) and bound[0] is point.module:
            at += point.stage == OUTPUT
            return Position(phase, 0, at, at)
    return None


def _within(model: BoundModel, point: Point) -> Position | None:
    """Outside the blocks: while the point's module runs; in a tower of which nothing has been learned, before the blocks."""
    start, end = (model.outer.get((point.inside, stage, "")) for stage in (INPUT, OUTPUT))
    inside = point.stage not in (INPUT, OUTPUT)
    if inside and start is not None and end is not None and start.phase == end.phase:
        return Position(start.phase, 0, start.first, end.last)
    return Position(BEFORE, 0, START, END) if point.ahead else None


def _in_block(model: BoundModel, point: Point) -> tuple[float, float]:
    if point.module is point.block_module and point.stage in (INPUT, OUTPUT):
        return (START, START) if point.stage == INPUT else (END, END)
    if not point.inside:  # a call between the block before and this one
        return START, START
    events = model.orders.get(model.blocks[point.block or 0].build, {})
    exact = events.get(event(point))
    if exact is not None:
        return exact, exact
    path = event(point)[0]
    return events.get((path, INPUT, ""), START), events.get((path, OUTPUT, ""), END)


def event(point: Point) -> Event:
    """What a lesson writes down when the forward comes by a point."""
    return point.inside, point.stage, point.step


def passed(run: Run, point: Point) -> bool:
    """Whether the forward, where it stands, is certainly past a place."""
    stands, model = run.stands, run.model
    if stands is None:
        return False
    if stands.module is model.module and stands.stage == OUTPUT:
        return True
    lesson = _current(run, point) if run.lessons else None
    if lesson is not None and lesson.has_seen(point):
        return True
    asked, here = position(model, point), position(model, stands)
    if asked is None or here is None:
        return False
    if asked[:2] != here[:2]:
        return asked[:2] < here[:2]
    if asked.last < here.first or (asked.last == here.first and asked != here):
        return True
    return point.stage in PROGRESS and PROGRESS[point.stage](run, point) is True


def verdict(run: Run, point: Point, stood: Point | None) -> bool | None:
    """After a wait in vain from where the forward stood: True, it had come by before; False, it does not; None, unknown."""
    lesson = _current(run, point)
    if lesson is not None and lesson.complete and point.stage in (INPUT, OUTPUT, ATTENTION):
        return event(point) in lesson.events
    if stood is None:
        return False
    asked, from_ = position(run.model, point), position(run.model, stood)
    if asked is None or from_ is None:
        return None
    return False if asked[:2] > from_[:2] or asked.first > from_.last else None


def _current(run: Run, point: Point) -> Lesson | None:
    """The lesson about this point's block that has seen the call which is running."""
    lesson = run.lessons.get(point.block)
    return lesson if lesson is not None and lesson.call == run.calls else None


class Lesson:
    """Writes down, during one call of a block (or of the model: what lies outside the blocks), what comes when."""

    def __init__(self, run: Run, model: BoundModel, block: Host | None) -> None:
        self.run, self.model, self.block = run, model, block
        self.events: dict[Event, int] = {}
        self.call, self.complete = 0, False  # of the run's calls of the model, the one it is about
        self._names: dict[int, str] = {}
        self._removers: list[Callable[[], None]] = []

    def begin(self) -> Lesson:
        """Put a note-taking hook on every module of the block, or every module outside the blocks."""
        modules = _inner(self.block.module) if self.block else _outer(self.model)
        for name, module in modules:
            self._names.setdefault(id(module), name)
            self._on(module.register_forward_pre_hook, name, INPUT)
            self._on(module.register_forward_hook, name, OUTPUT)
        tower = self.model.vision.blocks if self.model.vision is not None else ()
        for block in (self.block,) if self.block is not None else tower:
            self._listen_to_attention(block)
        end = self.block.module if self.block else self.model.module
        self._removers.append(end.register_forward_hook(self._finish).remove)
        return self

    def _on(self, register: Callable[..., Any], name: str, stage: str) -> None:
        def note(*_: Any) -> None:
            if getcurrent() is self.run.forward and self.run.depth < 2:
                self._write((name, stage, ""))

        self._removers.append(register(note).remove)

    def _listen_to_attention(self, block: Host) -> None:
        for host in block.parts.values():
            points = (found for name in host.values if isinstance(found := _point(host, name), Point))
            point = next((found for found in points if found.stage == ATTENTION), None)
            if point is not None:
                with suppress(Unavailable):
                    self._removers.append(INSTALLERS[ATTENTION](self.run, point))

    def has_seen(self, point: Point) -> bool:
        """Whether the forward has come by a point, or has left the module that it is inside of."""
        inside = point.stage not in (INPUT, OUTPUT)
        return event(point) in self.events or (inside and (point.inside, OUTPUT, "") in self.events)

    def note(self, site: Any) -> None:
        """A tap asks whether its site is wanted: the forward is just coming by."""
        module, stage, step = site
        if module in self._names and not self.complete:
            self._write((self._names[module], stage, step))

    def _write(self, what: Event) -> None:
        self.call = self.run.calls
        self.events.setdefault(what, len(self.events))

    def _finish(self, *_: Any) -> None:
        if getcurrent() is not self.run.forward or self.complete or self.run.depth > 1:
            return
        self.complete = True
        if self.block is not None:
            self.model.orders.setdefault(self.block.build, self.events)
        elif not self.model.outer:
            self.model.outer = _phases(self.model, self.events)
        self.model.learned += 1
        self.end()

    def end(self) -> None:
        """Take the hooks off."""
        removers, self._removers = self._removers, []
        for remove in removers:
            remove()


def attend(run: Run, point: Point) -> None:
    """Begin the lessons that asking for this point calls for, while the forward is still before what they are about."""
    model = run.model
    if run.stands is None and not model.outer and None not in run.lessons:
        run.begin_lesson(None, Lesson(run, model, None))
    if point.block is None or model.looped or point.block in run.lessons or point.module is point.block_module:
        return
    block = model.blocks[point.block]
    if block.build not in model.orders and _before(run, block):
        run.begin_lesson(point.block, Lesson(run, model, block))


def _before(run: Run, block: Host) -> bool:
    """Whether the forward has certainly not begun with the inside of a block."""
    if run.stands is None:
        return True
    here = position(run.model, run.stands)
    return here is not None and here[:3] <= (BLOCKS, block.index or 0, START)


def _point(host: Host, name: str) -> Point | Computed | None:
    return host.point(name) if host.absence(name) is None else None


def _inner(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every module inside another that can be called, by its path in it."""
    return [(name, part) for name, part in module.named_modules() if name and not isinstance(part, nn.ModuleList)]


def _outer(model: BoundModel) -> list[tuple[str, nn.Module]]:
    """Modules that are not inside a block; of the blocks themselves, the first and the last."""
    inside = tuple(f"{block.path}." for block in model.blocks)
    ends = {block.path for block in (*model.blocks[:1], *model.blocks[-1:])}
    return [(name, part) for name, part in _inner(model.module) if name in ends or not f"{name}.".startswith(inside)]


def _phases(model: BoundModel, events: dict[Event, int]) -> dict[Event, Position]:
    """Events outside the blocks as positions; what falls among the blocks has none."""
    if not model.blocks:
        return {}
    first = events.get((model.blocks[0].path, INPUT, ""), END)
    last = events.get((model.blocks[-1].path, OUTPUT, ""), START)
    return {
        what: Position(BEFORE if at < first else AFTER, 0, at, at)
        for what, at in events.items()
        if at < first or at > last
    }
