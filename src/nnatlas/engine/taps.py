"""Taps: hooks that are on a module only while something there is asked for, and off again at once after.

PyTorch decides at the start of a module's call whether it will look at hooks at all, so a module that is already running
never sees one added now.  Therefore asking for a place also gives every module above it a no-op hook (it is *armed*) until
the run ends; whatever is running while the body waits is then either armed or the tapped module itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent
from torch import nn

from nnatlas.bind.points import INPUT, OUTPUT, Point
from nnatlas.engine.payloads import Call, Result, forward_of
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.engine.run import Run

Remover = Callable[[], None]
INSTALLERS: dict[str, Callable[[Run, Point], Remover]] = {}
"""Stage -> how to put a tap there; each returns what takes it off.  `interior` adds its own stages."""
PREPARE: list[Callable[[Run, Point], None]] = []
"""What else must be in place before a point is waited for (`interior` adds its own)."""


def _armed(module: nn.Module, args: Any) -> None:
    """The no-op hook that keeps a running module's later hooks alive."""


class Taps:
    """The hooks of one run: armed modules, and the taps waiting to fire."""

    __slots__ = ("_armed", "_arms", "_note_call", "_root", "_waiting")

    def __init__(self, root: nn.Module, note_call: Callable[..., None]) -> None:
        self._root, self._note_call = root, note_call
        self._armed: set[int] = set()
        self._arms: list[Remover] = []
        self._waiting: list[Remover] = []

    def arm(self, modules: tuple[nn.Module, ...]) -> None:
        for module in modules:
            if id(module) not in self._armed:
                _refuse_compiled(module)
                self._armed.add(id(module))
                self._arms.append(self._arm(module))

    def _arm(self, module: nn.Module) -> Remover:
        """The root's arm also notes each call's inputs."""
        if module is self._root:
            return module.register_forward_pre_hook(self._note_call, with_kwargs=True).remove
        return module.register_forward_pre_hook(_armed).remove

    def wait(self, run: Run, point: Point) -> None:
        """Put the tap of a point, until it fires or `drop` is called."""
        self.arm(point.above or (point.module,))
        for prepare in PREPARE:
            prepare(run, point)
        self._waiting.append(INSTALLERS[point.stage](run, point))

    def keep(self, remover: Remover) -> None:
        """Take something off together with the taps that are waiting."""
        self._waiting.append(remover)

    def keep_on(self, remover: Remover) -> None:
        """Take something off when the run ends."""
        self._arms.append(remover)

    def drop(self) -> None:
        """Take off the taps that are waiting, fired or not."""
        waiting, self._waiting = self._waiting, []
        for remove in waiting:
            remove()

    def clear(self) -> None:
        """Take off everything: afterwards the model carries no hook of this run."""
        self.drop()
        for remove in self._arms:
            remove()
        self._arms, self._armed = [], set()


def _refuse_compiled(module: nn.Module) -> None:
    if getattr(module, "_compiled_call_impl", None) is not None:
        raise InputError(
            f"{type(module).__name__} is compiled: its hooks are not looked at. Trace the model before compiling it."
        )


def _tap_input(run: Run, point: Point) -> Remover:
    site, module = point.site, point.module

    def stop_before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getcurrent() is not run.forward or not run.wants(site):
            return None
        call = Call(args, kwargs, forward_of(module))
        run.reach(site, call)
        return (call.args, call.kwargs) if call.changed else None

    return module.register_forward_pre_hook(stop_before, with_kwargs=True).remove


def _tap_output(run: Run, point: Point) -> Remover:
    site = point.site

    def stop_after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        if getcurrent() is not run.forward or not run.wants(site):
            return None
        result = Result(output, Call(args, kwargs, forward_of(module)))
        run.reach(site, result)
        return result.output if result.changed else None

    return point.module.register_forward_hook(stop_after, with_kwargs=True).remove


INSTALLERS[INPUT] = _tap_input
INSTALLERS[OUTPUT] = _tap_output
