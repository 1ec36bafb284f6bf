"""Crossing between the body of a run and its forward, each with a thread state of its own.

Both sides live in one thread, so what torch keeps per thread (gradient mode, inference mode, autocast, function modes)
would leak from one to the other: `generate` turns gradients off inside, and the body must not see that.  Whoever leaves
remembers its state and finds it again on return.
"""

from __future__ import annotations

from typing import Any

import torch
from greenlet import greenlet

_C = torch._C


class Side:
    """The thread state of one side, as it was when that side last left."""

    __slots__ = ("autocast", "grad", "inference")

    def __init__(self) -> None:
        self.note()

    def note(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.autocast = _autocast()

    def restore(self) -> None:
        if torch.is_grad_enabled() is not self.grad:
            _C._set_grad_enabled(self.grad)
        if _autocast() != self.autocast:
            for device, enabled, dtype in self.autocast:
                torch.set_autocast_enabled(device, enabled)
                torch.set_autocast_dtype(device, dtype)


def _autocast() -> tuple[tuple[str, bool, torch.dtype], ...]:
    """Autocast of the processor and, where there is one, the accelerator."""
    return tuple((device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _DEVICES)


_DEVICES = ("cpu", *(("cuda",) if torch.cuda.is_available() else ()))


def cross(to: greenlet, mine: Side, theirs: Side, modes_kept: int) -> Any:
    """Switch to `to`; come back with this side's thread state as it was.

    Function modes pushed above the `modes_kept` that both sides share are taken along: they belong to this side.
    """
    mine.note()
    guard = _C._InferenceMode(theirs.inference) if theirs.inference is not mine.inference else None
    own_modes = [_C._pop_torch_function_stack() for _ in range(_C._len_torch_function_stack() - modes_kept)]
    if guard is not None:
        guard.__enter__()
    try:
        return to.switch()
    finally:
        if guard is not None:
            guard.__exit__(None, None, None)
        for mode in reversed(own_modes):
            _C._push_on_torch_function_stack(mode)
        mine.restore()
