"""Crossing between the body of a run and its forward, each with a thread state of its own.

Both sides live in one thread, so what torch keeps per thread (gradient mode, inference mode, autocast, function modes)
would leak from one to the other: `generate` turns gradients off inside, and the body must not see that; nor must a
`torch.no_grad()` around a read reach the forward.  Whoever leaves notes its state, puts the other's in place, and finds
its own again on return, also where the other side died without tidying up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_C = torch._C
_DEVICES = ("cpu", *(("cuda",) if torch.cuda.is_available() else ()))


class Side:
    """The thread state of one side, as it was when that side last left.

    Autocast and function modes are None while there are none in force, which is nearly always: one question each then.
    """

    __slots__ = ("autocast", "grad", "inference", "modes")

    def __init__(self) -> None:
        self.note()

    def note(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = _autocast() if _C._is_any_autocast_enabled() else None
        self.modes = _modes() if _C._len_torch_function_stack() else None

    def restore(self) -> None:
        """Put this state in place; inference mode is `cross`'s, which must leave it in the order it entered."""
        if torch.is_grad_enabled() is not self.grad:
            _C._set_grad_enabled(self.grad)
        if self.autocast is not None or _C._is_any_autocast_enabled():
            _set_autocast(self.autocast)
        if self.modes is not None or _C._len_torch_function_stack():
            _set_modes(self.modes or [])


def _autocast() -> tuple[Any, ...]:
    """Whether autocast keeps its casts, then device, on or off, and dtype for the processor and any accelerator."""
    states = ((device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _DEVICES)
    return torch.is_autocast_cache_enabled(), *states


def _set_autocast(wanted: tuple[Any, ...] | None) -> None:
    """Bring a noted state back; None is autocast off everywhere."""
    if wanted is None:
        for device in _DEVICES:
            torch.set_autocast_enabled(device, False)
        return
    torch.set_autocast_cache_enabled(wanted[0])
    for device, enabled, dtype in wanted[1:]:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def _modes() -> list[Any]:
    """The function modes in force, outermost first."""
    return [_C._get_function_stack_at(at) for at in range(_C._len_torch_function_stack())]


def _set_modes(wanted: list[Any]) -> None:
    if _modes() == wanted:
        return
    for _ in range(_C._len_torch_function_stack()):
        _C._pop_torch_function_stack()
    for mode in wanted:
        _C._push_on_torch_function_stack(mode)


def cross(switch: Callable[[], Any], mine: Side, theirs: Side) -> Any:
    """Leave for the other side by `switch()`; come back with this side's thread state as it was.

    The other side puts its own state in place when it wakes up in here; one that is only now beginning does it itself.
    """
    mine.note()
    if theirs.inference is not mine.inference:
        return _cross_inference(switch, mine, theirs.inference)
    try:
        return switch()
    finally:
        mine.restore()


def _cross_inference(switch: Callable[[], Any], mine: Side, inference: bool) -> Any:
    """Cross where inference mode differs: it must be left by the side, and in the order, that entered it."""
    guard = _C._InferenceMode(inference)
    guard.__enter__()
    try:
        return switch()
    finally:
        guard.__exit__(None, None, None)
        mine.restore()
