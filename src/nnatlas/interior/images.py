"""Runs with images: where their tokens stand, and what must be watched from the start of such a forward.

The features are written into the stream by a torch function in the middle of the wrapper's forward.  Calls of it can only be
counted from the start of that forward, so a run with images begins to watch before its first module is called, whatever the
body asks for first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from greenlet import getcurrent
from torch import Tensor

from nnatlas.bind.paths import lookup
from nnatlas.bind.points import INPUT, Computed, Point
from nnatlas.bind.tower import BoundTower
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run
from nnatlas.engine.taps import PREPARE
from nnatlas.errors import Unavailable


@derived(lambda point: [])
def image_token_mask(run: Run, point: Computed) -> Tensor:
    """True where an id of the call stands for the image, `[batch, seq]`; at any time in a run."""
    assert run.size  # begins the forward, if it has not begun
    if run.ids is None or run.ids.is_floating_point():
        raise Unavailable(f"{point.name}: this call was given embeddings, not ids")
    return run.ids == point.host.owner.image_token


@derived(lambda point: [])
def in_front(run: Run, point: Computed) -> Tensor:
    """True for the image's tokens, which stand in front of each row's own, without ids; at any time in a run."""
    rows, width = run.size
    tower = point.host.owner
    count = lookup(tower.text.module, tower.wrapper.in_front)
    device = next(tower.text.module.parameters()).device
    return (torch.arange(count + width, device=device) < count).expand(rows, -1)


@derived()
def marked(run: Run, point: Computed, marks: Tensor) -> Tensor:
    """Where a mask that the call was given has its marks."""
    return marks.bool()


def begin(run: Run) -> None:
    """Watch what a run with images must have watched from its start (called in the forward, before the model)."""
    tower = run.model.vision
    assert isinstance(tower, BoundTower)
    for name in tower.root.values:
        point: Any = tower.root.point(name) if tower.root.absence(name) is None else None
        if isinstance(point, Point) and (point.watched or point.calling):
            for prepare in PREPARE:
                prepare(run, point)
            _until_the_text_model(run, point)
    for point in tower.additions:
        for prepare in PREPARE:
            prepare(run, point)
    run.keep(tower.root.module.register_forward_pre_hook(_noting(run)).remove)


def _noting(run: Run) -> Callable[..., None]:
    """Notes a tower that runs before the model's own forward has begun."""

    def note(*_: Any) -> None:
        if getcurrent() is run.forward and not run.calls:
            run.images_first = True

    return note


def _until_the_text_model(run: Run, point: Point) -> None:
    """Stop counting where the text model begins: every function called in it would be looked at in vain."""
    base, span = run.model.root.roles["base"], run.watches.get(id(point.module))
    again = any(other.module is point.module for other in run.model.vision.additions)  # type: ignore[union-attr]
    if span is not None and not again and isinstance(base, tuple) and f"{base[1]}.".startswith(f"{point.path}."):
        begins = run.model.blocks[0].module if base[1] == point.path else base[0]
        run.keep(begins.register_forward_pre_hook(span.end).remove)


def forget_order(model: Any) -> None:
    """Have the order outside the blocks learned anew if no run with images has taught it yet."""
    tower = model.vision
    if model.outer and tower.blocks and (tower.blocks[0].path, INPUT, "") not in model.outer:
        model.outer = {}
        model.learned += 1
