"""Derived values: named functions over other values of a run.  `interior` adds the ones that know attention and experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nnatlas.bind.cells import point_at
from nnatlas.bind.points import Computed, Point
from nnatlas.places import parse

if TYPE_CHECKING:
    from nnatlas.engine.run import Run

Needs = Callable[[Computed], "list[Point | Computed]"]


class Derivation(NamedTuple):
    """What a derived value is computed from, and how: `compute(run, point, *values)`."""

    needs: Needs
    compute: Callable[..., Any]


DERIVED: dict[str, Derivation] = {}
"""Function name in a cell -> its derivation."""


def _arguments(point: Computed) -> list[Point | Computed]:
    """By default the values and places named in the cell, at the same host."""
    return [
        point_at(point.host, point.value, parse(argument), f", argument {at}")
        if ">" in argument
        else point.host.point(argument)
        for at, argument in enumerate(point.arguments)
    ]


def derived(needs: Needs = _arguments) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function available to family rows under its own name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        DERIVED[function.__name__] = Derivation(needs, function)
        return function

    return register


@derived(lambda point: [])
def input_size(run: Run, point: Computed) -> list[int]:
    """[batch, seq] of this call, at any time in it."""
    return run.size


@derived()
def added(run: Run, point: Computed, first: Tensor, second: Tensor) -> Tensor:
    """The sum of two values that the forward adds up on its own."""
    return first + second


@derived()
def beyond(run: Run, point: Computed, part: Tensor, whole: Tensor) -> Tensor:
    """What a whole has beyond one part of it, where the forward adds the rest on its own."""
    return whole - part


@derived()
def next_token_probs(run: Run, point: Computed, logits: Tensor) -> Tensor:
    """Softmax of the logits at each row's last real token: `[batch, vocab_size]`, float32."""
    rows = torch.arange(len(logits), device=logits.device)
    return torch.softmax(logits[rows, _last_real(run.mask, logits)].float(), dim=-1)


def _last_real(mask: Tensor | None, logits: Tensor) -> Tensor | int:
    """Each row's last position that is not padding (padding on the right is counted from the end)."""
    if mask is None or mask.ndim != 2 or logits.shape[1] == 1:
        return -1
    padding_after = mask.flip(1).cumsum(1).eq(0).sum(1)
    return (logits.shape[1] - 1 - padding_after).to(logits.device)
