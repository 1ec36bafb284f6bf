"""Where a forward stands, and whether a place lies before or behind it.

Blocks run in their order, the embedding before them, norm and head after.  Inside a block the order is learned, not
declared: the first run that asks for something inside a kind of block writes down in which order its modules start and end.
What is not known for certain is not claimed: the engine then waits until the block ends and judges there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from greenlet import getcurrent
from torch import nn

from nnatlas.bind.points import ATTENTION, INPUT, OUTPUT, Point
from nnatlas.bind.tree import BoundModel, Host

if TYPE_CHECKING:
    from nnatlas.engine.run import Run

BLOCKS = 2
_PHASES = {"embed_tokens": 1, "norm": 3, "lm_head": 4}
_STEPS = {"inputs": 0, "scores": 1, "probabilities": 2, "out": 3}


class Position(NamedTuple):
    """A place in the forward: phase, block, and the interval between the first and last event it may fall on."""

    phase: int
    block: int
    first: float
    last: float
    step: int = 0


START, END = float("-inf"), float("inf")


def position(model: BoundModel, point: Point) -> Position | None:
    """Where a point lies, or None where the forward's order says nothing about it."""
    if point.block is not None:
        return None if model.looped else _in_block(model, point, model.blocks[point.block])
    if point.module is model.module:
        return Position(0 if point.stage == INPUT else 5, 0, 0, 0)
    for role, phase in _PHASES.items():
        bound = model.root.roles.get(role)
        if isinstance(bound, tuple) and bound[0] is point.module:
            return Position(phase, 0, *((START, START) if point.stage == INPUT else (END, END)))
    return None


def _in_block(model: BoundModel, point: Point, block: Host) -> Position:
    if point.module is block.module and point.stage in (INPUT, OUTPUT):
        edge = START if point.stage == INPUT else END
        return Position(BLOCKS, block.index or 0, edge, edge)
    events = model.orders.get(block.kinds, {})
    inside = point.path[len(block.path) + 1 :]
    starts, ends = events.get((inside, INPUT)), events.get((inside, OUTPUT))
    if starts is None or ends is None:
        return Position(BLOCKS, block.index or 0, START, END)
    first = ends if point.stage == OUTPUT else starts
    last = starts if point.stage == INPUT else ends
    return Position(BLOCKS, block.index or 0, first, last, _STEPS.get(point.step, 0) if point.stage == ATTENTION else 0)


def passed(asked: Position | None, stands: Position | None) -> bool:
    """Whether the forward, standing at one place, is certainly past another."""
    if asked is None or stands is None:
        return False
    if (asked.phase, asked.block) != (stands.phase, stands.block):
        return (asked.phase, asked.block) < (stands.phase, stands.block)
    if (asked.first, asked.last) == (stands.first, stands.last):
        return asked.step < stands.step or asked.first == asked.last
    return asked.last < stands.first or (asked.last == stands.first and asked.last in (START, END))


def known(model: BoundModel, point: Point) -> bool:
    """Whether the order inside this point's block has been learned."""
    return point.block is None or model.blocks[point.block].kinds in model.orders


def runs_there(model: BoundModel, point: Point) -> bool:
    """Whether the block's learned order has the point's module at all."""
    if point.block is None:
        return True
    block = model.blocks[point.block]
    return (point.path[len(block.path) + 1 :], INPUT) in model.orders.get(block.kinds, {})


def learn(run: Run, block: Host) -> Callable[[], None]:
    """Write down the order of a block's modules during its next call in this run; returns what takes the hooks off."""
    events: dict[tuple[str, str], int] = {}
    removers = []

    def note(name: str, stage: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            if getcurrent() is run.forward:
                events.setdefault((name, stage), len(events))

        return hook

    def finish(*_: Any) -> None:
        if getcurrent() is run.forward and events:
            run.model.orders.setdefault(block.kinds, dict(events))

    for name, module in _inner(block):
        removers.append(module.register_forward_pre_hook(note(name, INPUT)).remove)
        removers.append(module.register_forward_hook(note(name, OUTPUT)).remove)
    removers.append(block.module.register_forward_hook(finish).remove)
    return lambda: [remove() for remove in removers] and None


def _inner(block: Host) -> list[tuple[str, nn.Module]]:
    """Every module inside a block that can be called, by its path in the block."""
    return [
        (name, module)
        for name, module in block.module.named_modules()
        if name and not isinstance(module, nn.ModuleList)
    ]
