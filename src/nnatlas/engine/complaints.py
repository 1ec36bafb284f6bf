"""What the engine says when it cannot do what was asked: what was asked, where the forward stands, and what to type."""

from __future__ import annotations

from torch import nn

from nnatlas.bind.points import Computed, Point
from nnatlas.errors import AlreadyRan, InputError, NeverReached, NotInRun, ReadOnly


def already_ran(point: Point, stands: str) -> AlreadyRan:
    """The forward is past the place (or has ended)."""
    return AlreadyRan(
        f"{point.name} has already been computed: the forward stands at {stands}. Values come in the order in which the "
        f"forward computes them. Read {point.name} earlier in the block and keep it in a variable, or take names in any "
        f'order with model.collect(inputs, ["{point.name}", ...]).'
    )


def missed(point: Point, stands: str, ran_before: bool | None) -> AlreadyRan | NeverReached:
    """The forward was waited for in vain: the place was passed before, is not called at all, or nobody knows which."""
    if ran_before:
        return already_ran(point, stands)
    if ran_before is None:
        return NeverReached(
            f"{point.name} was not computed between where the forward stood and {stands}. Either it had been computed before "
            f'(then read it earlier, or use model.collect(inputs, ["{point.name}", ...])), or this forward does not come to it.'
        )
    return never_reached(point, stands)


def never_reached(point: Point, stands: str) -> NeverReached:
    """This forward does not come to the place at all."""
    return NeverReached(
        f"{point.name} was not computed: the forward went on to {stands} without calling {point.path or 'the model'}. "
        "The module was skipped for these inputs, the model keeps it for another mode, or it stands in the model no longer."
    )


def not_open(new: bool) -> NotInRun:
    """A run used before or after its `with` block."""
    if new:
        return NotInRun("this run is not open yet: with model.trace(prompt) as run: ...")
    return NotInRun("this run is over: values are read inside its `with` block; open another with model.trace(...)")


def read_only(point: Point | Computed) -> ReadOnly:
    """An assignment to a value that is computed from others, or belongs to the call."""
    return ReadOnly(f"{point.name} cannot be assigned: {point.read_only or point.value.read_only}.")


def unfinished() -> NotInRun:
    """The generated text was asked for before there was one."""
    return NotInRun(
        "the generation is not finished: read run.text after the `with` block, or after the loop over run.steps()"
    )


def refuse_checkpointing(module: nn.Module) -> None:
    """Recomputed forwards would run the taps twice."""
    if module.training and any(getattr(part, "gradient_checkpointing", False) for part in module.modules()):
        raise InputError(
            "gradient checkpointing runs each block a second time during backward, where edits would be lost. "
            "Turn it off, or call model.eval(), before a run."
        )
