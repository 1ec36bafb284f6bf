"""Stopping inside the attention call, whatever attention implementation is configured.

transformers sends every attention call through its modeling file's `ALL_ATTENTION_FUNCTIONS`.  While something inside a
block's attention is wanted, a dispatcher stands in that object under the implementation's own name: the name stays what it
was, so files that branch on it behave as before, and calls of other modules and runs pass straight through.  Queries, keys,
values and the output are served around the configured implementation; for scores and probabilities this one call goes
through the modeling file's own eager function, whose softmax and dropout are watched.  Where one forward makes several
calls, they are taken together: see `gathering`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet
from torch import Tensor, nn

from nnatlas.bind.points import ATTENTION, Point
from nnatlas.engine.payloads import Call, Result, Tensors
from nnatlas.engine.run import Run
from nnatlas.engine.taps import INSTALLERS, Remover
from nnatlas.engine.visits import Guest
from nnatlas.errors import Unavailable
from nnatlas.interior.gathering import Gathering
from nnatlas.interior.masks import additive
from nnatlas.interior.watching import Watch

Function = Callable[..., Any]
Filter = Callable[[Tensor], Tensor]
_EAGER = "eager_attention_forward"
_LOCK = threading.Lock()
"""Runs in several threads may come to the same interface object at once."""


class Dispatcher:
    """What stands in for one implementation in one interface object while some run wants to look inside."""

    def __init__(self, interface: Any, name: str) -> None:
        self.interface, self.name = interface, name
        self.wanted: dict[tuple[greenlet, int], list[Look]] = {}
        self.gathered: dict[tuple[greenlet, int], Gathering] = {}
        self.before = interface._local_mapping.get(name)

    def add(self, look: Look) -> None:
        with _LOCK:
            if not self.wanted:
                self.before = self.interface._local_mapping.get(self.name)
                self.interface[self.name] = self
            looks = self.wanted.setdefault(look.key, [])
            looks.insert(sum(other.stands for other in looks) if look.stands else len(looks), look)

    def remove(self, look: Look) -> None:
        with _LOCK:
            looks = self.wanted.get(look.key, [])
            if look in looks:
                looks.remove(look)
            if not looks:
                self.wanted.pop(look.key, None)
                self.gathered.pop(look.key, None)
            if not self.wanted and self.interface._local_mapping.get(self.name) is self:
                if self.before is None:
                    del self.interface[self.name]
                else:  # in one step: another thread may be about to call it
                    self.interface[self.name] = self.before

    def configured(self, module: nn.Module) -> Function:
        """The implementation that would have run."""
        return self.before or self.interface._global_mapping.get(self.name) or eager_of(module)

    def __call__(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        key = (getcurrent(), id(module))
        looks = self.wanted.get(key)
        if not looks:
            return self.configured(module)(module, *args, **kwargs)
        if looks[0].gathers:
            return self._gathering(key, looks, module).put_off(*args, **kwargs)
        return Looks(looks).run_call(self.configured(module), module, *args, **kwargs)

    def _gathering(self, key: tuple[greenlet, int], looks: list[Look], module: nn.Module) -> Gathering:
        """What takes in the calls that this forward of the module makes, until their outputs are used."""
        if key not in self.gathered:
            own = Looks(looks), self.configured(module), eager_of
            self.gathered[key] = Gathering(*own, module, lambda: self.gathered.pop(key, None))
        return self.gathered[key]


_DISPATCHERS: dict[tuple[int, str], Dispatcher] = {}


class Look:
    """One run's look into one attention module's call, or that of an edit that stands in the run."""

    def __init__(self, run: Run, module: nn.Module, gathers: bool = False) -> None:
        self.run, self.stands = run, isinstance(run, Guest)
        self.gathers = gathers  # whether all calls of the module are one place
        self.key = (run.forward, id(module))
        self._module = id(module)

    def wants(self, step: str) -> bool:
        return self.run.wants((self._module, ATTENTION, step))

    def stop(self, step: str, tensors: list[Any]) -> list[Any]:
        """Stop at a step if the body waits for it; the tensors to go on with."""
        if not self.wants(step):
            return tensors
        payload = Tensors(*tensors)
        self.run.reach((self._module, ATTENTION, step), payload)
        return payload.tensors


class Looks:
    """Everybody's looks into one call: first the standing edits', in the order in which they were entered."""

    def __init__(self, looks: list[Look]) -> None:
        self.looks = tuple(looks)  # one of a run serves whatever its body asks for until the call is over

    def wants(self, *steps: str) -> bool:
        return any(look.wants(step) for step in steps for look in self.looks)

    def stop(self, step: str, *tensors: Any) -> list[Any]:
        """Let each look at a step in its turn; the tensors to go on with."""
        passed = list(tensors)
        for look in self.looks:
            passed = look.stop(step, passed)
        return passed

    def run_call(self, configured: Function, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        inputs = self.stop("inputs", *args[:3])
        mask, rest = (args[3], args[4:]) if len(args) > 3 else (kwargs.pop("attention_mask", None), ())
        way = self._step_by_step if self.wants("scores", "probabilities") else _as_configured
        output, weights = way(configured, module, *inputs, mask, *rest, **kwargs)
        return self.stop("out", output)[0], weights

    def _step_by_step(self, configured: Function, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        query, key, value, mask, *rest = args
        eager = eager_of(module)
        mask = additive(module, mask, query, key, kwargs.get("is_causal"), kwargs.get("sliding_window"))
        output, weights = self.watched(eager, module, query, key, value, mask, *rest, **kwargs)
        return output, weights if configured is eager else None

    def watched(
        self, eager: Function, *args: Any, before: Filter | None = None, after: Filter | None = None, **kwargs: Any
    ) -> Any:
        """A step-by-step call, stopped at its scores and its probabilities; `before` and `after` are done to them first."""

        def scores(call: Call) -> None:
            found = call.get(0) if before is None else before(call.get(0))
            call.set(0, self.stop("scores", found)[0])

        def pattern(result: Result) -> None:
            found = result.get(None) if after is None else after(result.get(None))
            result.set(None, self.stop("probabilities", found)[0])

        with Watch(self.looks[0].run, ("softmax", "dropout")) as watch:
            watch.before("softmax", 0, scores)
            watch.after("dropout", 0, pattern)
            return eager(*args, **kwargs)


def _as_configured(configured: Function, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return configured(module, *args, **kwargs)


def eager_of(module: nn.Module) -> Function:
    """The step-by-step attention function that the module's forward names, of its own modeling file.

    A file may have one for the text model and one for its tower.
    """
    for owner in type(module).__mro__:
        if "forward" in vars(owner):
            forward = inspect.unwrap(vars(owner)["forward"])
            named = (name for name in forward.__code__.co_names if name.endswith(_EAGER))
            found = forward.__globals__.get(next(named, _EAGER))
            if found is not None:
                return found
    raise Unavailable(
        f"{type(module).__name__}'s file has no eager_attention_forward, so its scores cannot be computed step by step"
    )


def interface_of(module: nn.Module) -> Any:
    """The interface object that the module's forward asks for its attention function."""
    for owner in type(module).__mro__:
        if "forward" in vars(owner):
            found = inspect.unwrap(vars(owner)["forward"]).__globals__.get("ALL_ATTENTION_FUNCTIONS")
            if found is not None:
                return found
    raise Unavailable(f"{type(module).__name__} does not send its attention through transformers' attention interface")


def _install(run: Run, point: Point) -> Remover:
    module: Any = point.module
    interface, name = interface_of(module), str(module.config._attn_implementation or "eager")
    dispatcher = _DISPATCHERS.setdefault((id(interface), name), Dispatcher(interface, name))
    gathers = point.place is not None and getattr(point.place.source, "gathered", False)
    look = Look(run, module, gathers)
    dispatcher.add(look)
    return lambda: dispatcher.remove(look)


INSTALLERS[ATTENTION] = _install
