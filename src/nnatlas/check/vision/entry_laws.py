"""The laws of where the image enters: the scatter, what the projector reads, the order, and a run without images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nnatlas.check.findings import Finding, apart
from nnatlas.check.vision.sighted import Sighted, counted
from nnatlas.check.vision.tower_laws import seeing_run
from nnatlas.errors import AlreadyRan, AtlasError, Unavailable


def scatter(trial: Sighted) -> Iterator[Finding]:
    """`layers[0].layer_input[image_token_mask] == vision.image_features`, exactly."""
    root = trial.tower.root
    if (reason := root.absence("image_features")) is not None:
        yield trial.excepted("scatter", "vision.image_features", "vision", reason)
        return
    mask, features, entering = _entry(trial)
    yield trial.finding(
        "scatter", "vision.image_token_mask", "vision", None if mask.any() else "no token stands for the image"
    )
    said = "layers[0].layer_input[image_token_mask] == image_features, exactly"
    for stream in _streams(entering[mask.to(entering.device)], features):
        yield trial.close("scatter", "vision.image_features", "vision", said, stream, features, 0.0)


def _streams(entering: Tensor, features: Tensor) -> list[Tensor]:
    """What enters at the image's tokens, one tensor `[image_tokens, hidden_size]` for each stream."""
    width = features.shape[-1]
    return list(entering.reshape(len(entering), -1, width).unbind(1)) if entering.numel() % width == 0 else [entering]


def _entry(trial: Sighted) -> tuple[Tensor, Tensor, Tensor]:
    names = ["vision.image_token_mask", "vision.image_features", "layers.0.layer_input"]
    with torch.no_grad():
        found = trial.model.collect(trial.batch, names)
    mask, features, entering = (found[name].clone() for name in names)
    return mask, features, entering


def zeroed(trial: Sighted) -> Iterator[Finding]:
    """Zeroing the features changes the logits, and no text position of what enters the first block."""
    tower = trial.tower
    if tower.root.absence("image_features") is not None:
        return
    mask, _, entering = _entry(trial)
    with torch.no_grad(), seeing_run(trial) as run:
        run.write(tower.root.point("image_features"), 0.0)
        after = run.read(trial.model._owner.blocks[0].point("layer_input")).clone()
    moved = apart(counted(run.output.logits), trial.bare)
    wrong = None if moved > trial.allowed else "zeroing the features does not change the logits"
    yield trial.finding("zeroed", "vision.image_features", "vision", wrong, f"the logits move by {moved:.1e}")
    same = torch.equal(after[~mask], entering[~mask])
    wrong = None if same else "text positions of layers[0].layer_input changed too"
    yield trial.finding("zeroed", "block.layer_input", "layers[0]", wrong, "text positions stay as they are")


def reads(trial: Sighted) -> Iterator[Finding]:
    """What the row says the projector reads is what reaches it: a write there changes its input, one behind it does not."""
    tower = trial.tower
    if tower.projector is None or not tower.blocks:
        return
    before = _projector_input(trial, None)
    for name in tower.reads:
        after = _projector_input(trial, name)
        moved = _moved(after, before)
        wrong = (
            None if isinstance(moved, float) and moved > trial.allowed else f"a write there does not reach it: {moved}"
        )
        yield trial.finding("reads", "projector.projector_input", f"vision.{name}", wrong, "the projector reads this")
    for name in _unread(trial):
        after = _projector_input(trial, name)
        wrong = None if _moved(after, before) == 0 else "a write there reaches the projector"
        yield trial.finding(
            "reads", "projector.projector_input", f"vision.{name}", wrong, "the projector does not read this"
        )


def _moved(after: Tensor | str, before: Tensor | str) -> float | str:
    """How far the projector's input moved, or what kept it from being read."""
    if isinstance(after, Tensor) and isinstance(before, Tensor):
        return apart(after, before)
    return after if isinstance(after, str) else str(before)


def _unread(trial: Sighted) -> list[str]:
    """The last block's output and the tower's, where the row names neither nor anything computed from them."""
    tower, last = trial.tower, f"layers[{len(trial.tower.blocks) - 1}].layer_output"
    if "tower_output" in tower.reads:
        return []
    found = [name for name in (last,) if name not in tower.reads]
    if isinstance(tower.root.roles["norm"], tuple) and tower.root.absence("tower_output") is None:
        found.append("tower_output")
    return found


def _projector_input(trial: Sighted, noisy: str | None) -> Tensor | str:
    """What the projector is called with, with one place of the tower replaced by noise."""
    tower = trial.tower
    assert tower.projector is not None
    try:
        with torch.no_grad(), seeing_run(trial) as run:
            if noisy is not None:
                point = _point(tower, noisy)
                value = run.read(point)
                run.write(point, torch.randn(value.shape, generator=torch.Generator().manual_seed(1)).to(value))
            found: Tensor = run.read(tower.projector.point("projector_input")).clone()
            run.stop()
        return found
    except AtlasError as fault:
        return f"{type(fault).__name__}: {fault}"


def _point(tower: Any, name: str) -> Any:
    """`tower_output`, or `layers[3].layer_output`."""
    head, dot, value = name.partition(".")
    host = tower.blocks[int(head[len("layers[") : -1])] if dot else tower.root
    return host.point(value or head)


def order(trial: Sighted) -> Iterator[Finding]:
    """A value of the tower asked for after the text model has begun is past."""
    asked = next((seen for seen in trial.served if seen.name == "layer_output" and seen.host.owner.in_front), None)
    if asked is None:
        return
    if trial.model._owner.looped:
        yield trial.excepted("order", asked.key, asked.host.name, "the text model runs its blocks more than once")
        return
    try:
        with torch.no_grad(), seeing_run(trial) as run:
            run.read(trial.model._owner.blocks[0].point("layer_input"))
            run.read(asked.point)
        wrong: str | None = "it was answered"
    except AlreadyRan:
        wrong = None
    except AtlasError as other:
        wrong = f"{type(other).__name__}: {other}"
    yield trial.finding("order", asked.key, asked.host.name, wrong, "AlreadyRan, after layers[0].layer_input")


def absent(trial: Sighted) -> Iterator[Finding]:
    """A run on text alone says, by reason, that it has no values of the tower."""
    try:
        with torch.no_grad(), trial.model.trace("text alone") as traced:
            assert traced.vision.tower_output is None
        wrong: str | None = "it was answered"
    except Unavailable:
        wrong = None
    except AtlasError as other:
        wrong = f"{type(other).__name__}: {other}"
    except (ValueError, TypeError) as refused:  # raised by the model itself
        yield trial.excepted("absent", "vision.tower_output", "vision", f"the model refuses text alone: {refused}")
        return
    yield trial.finding("absent", "vision.tower_output", "vision", wrong, "absent without images, by reason")
