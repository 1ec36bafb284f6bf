"""Python functions that a module's forward calls: where they are found, and which side of their call a point means."""

from __future__ import annotations

import inspect
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from nnatlas.places import Calls, Way


def namespace(module: nn.Module, name: str) -> MutableMapping[str, Any] | None:
    """Where a module's forward finds `name`: the module for a method, else its modeling file; None if in neither.

    Putting something under the name there is what the forward then calls.
    """
    if callable(getattr(module, name, None)):
        return vars(module)
    for owner in type(module).__mro__:
        if "forward" in vars(owner):
            names = inspect.unwrap(vars(owner)["forward"]).__globals__
            return names if name in names else None
    return None


@dataclass(frozen=True, slots=True)
class CallItem:
    """What a call place picks, whichever of its functions is called; `blank` is the size of the zeros it may stand for."""

    ways: tuple[Way, ...]
    blank: tuple[int, ...] | None = None

    @property
    def stop(self) -> str:
        """`in` or `out`: whether the forward is stopped before or after the call."""
        return "out" if any(way.side in ("out", "after") for way in self.ways) else "in"

    def way(self, function: str) -> Way:
        """The side of this function's call."""
        return next(way for way in self.ways if function in way.functions)


def step_of(source: Calls, item: CallItem) -> str:
    """The name of the stop that points of the same calls share."""
    numbers = sorted({way.index for way in source.ways})
    return f"{'|'.join(sorted(source.functions))}{numbers} > {item.stop}"
