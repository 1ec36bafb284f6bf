"""Taps: hooks that are on a module only while something there is asked for, and off again at once after.

PyTorch decides at the start of a module's call whether it will look at hooks at all, so a module that is already running
never sees one added now.  Therefore asking for a place also gives every module above it a hook of its own (it is *armed*)
until the run ends; whatever is running while the body waits is then either armed or the tapped module itself.  On most
modules that hook does nothing; on a block and on the whole model it notices that a wait is in vain.

Several threads may run one model.  PyTorch looks a hook up in one table and whether it takes keywords in another, so while
one thread puts or takes off a hook another can call it without them.  Such a hook is somebody else's, and does nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from greenlet import getcurrent
from torch import nn

from nnatlas.bind.points import INPUT, OUTPUT, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine.payloads import Call, Result, forward_of
from nnatlas.errors import InputError, RowDoesNotFit

if TYPE_CHECKING:
    from nnatlas.engine.run import Run

CAPTURING = "transformers.utils.output_capturing"
Remover = Callable[[], None]
INSTALLERS: dict[str, Callable[[Run, Point], Remover]] = {}
"""Stage -> how to put a tap there; each returns what takes it off.  `interior` adds its own stages."""
PREPARE: list[Callable[[Run, Point], None]] = []
"""What else must be in place before a point is waited for (`interior` adds its own)."""
PROGRESS: dict[str, Callable[[Run, Point], bool]] = {}
"""Stage -> whether the call that is running is certainly past a point of that stage (`interior` adds its own)."""


class Taps:
    """The hooks of one run: armed modules, and the taps waiting to fire."""

    __slots__ = ("_armed", "_kept", "_model", "_waiting")

    def __init__(self, model: BoundModel) -> None:
        self._model = model
        self._armed: set[int] = set()
        self._kept: list[Remover] = []
        self._waiting: list[Remover] = []

    def wait(self, run: Run, point: Point) -> None:
        """Put the tap of a point, until `drop` is called."""
        for module in point.armed:
            if id(module) not in self._armed:
                self._arm(run, module)
        refuse_changed(point)
        if point.watched or point.calling:
            for prepare in PREPARE:
                prepare(run, point)
        self._waiting.append(INSTALLERS[point.stage](run, point))
        if point.ahead and point.stage == OUTPUT and run.model.standing is not None:
            run.model.standing.stay_first(run)

    def _arm(self, run: Run, module: nn.Module) -> None:
        refuse_compiled(module)
        self._armed.add(id(module))
        end = self._model.ends.get(id(module))
        hook = _armed if end is None else _ending(run, end)
        self._kept.append(module.register_forward_hook(hook).remove)
        if module is self._model.module:
            self._kept.append(module.register_forward_pre_hook(_calling(run), with_kwargs=True).remove)
            self._kept.append(module.register_forward_hook(_called(run), always_call=True).remove)

    def keep(self, remover: Remover) -> None:
        """Take something off when the run ends."""
        self._kept.append(remover)

    def drop(self) -> None:
        """Take off the taps that are waiting, fired or not."""
        waiting, self._waiting = self._waiting, []
        for remove in waiting:
            remove()

    def clear(self) -> None:
        """Take off everything: afterwards the model carries no hook of this run."""
        self.drop()
        kept, self._kept, self._armed = self._kept, [], set()
        for remove in reversed(kept):
            remove()


def _armed(module: nn.Module, args: Any, output: Any) -> None:
    """The no-op hook that keeps a running module's later hooks alive."""


def _calling(run: Run) -> Callable[..., None]:
    """Notes every call of the whole model; one inside another, by a hook of the user's, is none of the run's."""

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        if kwargs is not None and getcurrent() is run.forward:
            run.depth += 1
            if run.depth == 1:
                run.calls += 1
                run.note_call(args, kwargs)

    return note


def _called(run: Run) -> Callable[..., None]:
    """Notes the end of every call of the whole model."""

    def note(*_: Any) -> None:
        if getcurrent() is run.forward:
            run.depth -= 1

    return note


def _ending(run: Run, end: Point) -> Callable[..., Any]:
    """Stops at the end of a block or of the model if what the body waits for did not come in it."""

    def stop_in_vain(_: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if getcurrent() is not run.forward or not run.misses(end):
            return None
        result = Result(output)
        run.reach(end.site, result, end)
        return result.output if result.changed else None

    return stop_in_vain


def refuse_compiled(module: nn.Module) -> None:
    """Raise for a module whose compiled forward would not look at hooks."""
    forward = module.__dict__.get("forward")
    if module._compiled_call_impl is not None or hasattr(forward, "_torchdynamo_orig_callable"):
        raise InputError(
            f"{type(module).__name__} is compiled: hooks inside are not looked at. Trace the model before compiling it."
        )


def refuse_changed(point: Point) -> None:
    """Raise for a place whose module was compiled, or gave way to another, since the model was loaded."""
    refuse_compiled(point.module)
    if not point.stands:
        raise RowDoesNotFit(
            f"{point.name}: another module stands at {point.path} than when the model was loaded. "
            "Load the changed model again: nnatlas.load(model._module)"
        )


def _tap_input(run: Run, point: Point) -> Remover:
    site = point.site

    def stop_before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        if getcurrent() is not run.forward or kwargs is None or not run.wants(site):
            return None
        call = Call(args, kwargs, forward_of(module))
        run.reach(site, call)
        return (call.args, call.kwargs) if call.changed else None

    return point.module.register_forward_pre_hook(stop_before, with_kwargs=True).remove


def _tap_output(run: Run, point: Point) -> Remover:
    module, site = point.module, point.site

    def stop_after(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> Any:
        if getcurrent() is not run.forward or len(rest) < 2 or not run.wants(site):
            return None
        kwargs, output = rest
        result = Result(output, (module, args, kwargs))
        run.reach(site, result)
        return result.output if result.changed else None

    handle = module.register_forward_hook(stop_after, with_kwargs=True, prepend=point.ahead)
    if len(module._forward_hooks) > 1:
        _capture_last(module)
    return handle.remove


def _capture_last(module: nn.Module) -> None:
    """What transformers collects for `output_hidden_states` is what the model goes on with, edits included.

    Its hooks stay on a module once anybody has asked for hidden states; ours would come after them from then on.
    """
    hooks = cast(OrderedDict[int, Any], module._forward_hooks)
    for key in [key for key, hook in tuple(hooks.items()) if getattr(hook, "__module__", "") == CAPTURING]:
        hooks.move_to_end(key)


INSTALLERS[INPUT] = _tap_input
INSTALLERS[OUTPUT] = _tap_output

__all__ = ["INSTALLERS", "PREPARE", "PROGRESS", "Remover", "Taps"]
