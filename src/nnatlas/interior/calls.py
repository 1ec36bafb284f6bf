"""Stopping at a Python function that a module's forward calls, such as the recurrence of a linear attention.

Modeling files keep these as functions of their own, so that a faster kernel can stand in for them.  While a watched module
runs in a run's greenlet, a dispatcher stands under the function's name, in the module itself for a method and in the
modeling file otherwise; calls from other modules, runs and threads pass straight through, and whatever implementation is
configured is the one that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from threading import Lock
from typing import Any

import torch
from greenlet import getcurrent
from torch import Tensor, nn

from nnatlas.bind.functions import CallItem, namespace
from nnatlas.bind.points import CALL, Point
from nnatlas.engine.payloads import Call, Result
from nnatlas.engine.run import Run
from nnatlas.engine.taps import INSTALLERS, PREPARE, PROGRESS, Remover
from nnatlas.errors import ReadOnly, Unavailable


class Calling:
    """A function about to be called, or just done: its arguments and, once there is one, its result."""

    __slots__ = ("call", "changed", "name", "result")

    def __init__(self, name: str, call: Call, result: Result | None = None) -> None:
        self.name, self.call, self.result, self.changed = name, call, result, False

    def get(self, item: CallItem) -> Any:
        """What `item` says of this function; zeros where it passes none and the place says so."""
        way = item.way(self.name)
        if way.side == "nothing":
            return self._zeros(item)
        found = self._output(way.item) if way.side == "out" else self.call.get(way.item)
        if found is None and item.blank is not None:
            found = self._zeros(item)
            self.call.set(way.item, found)
        if found is None:
            raise Unavailable(f"{self.name} has none in this call: the forward keeps no cache; pass use_cache=True")
        return found

    def set(self, item: CallItem, value: Any) -> None:
        way = item.way(self.name)
        if way.side == "nothing":
            raise ReadOnly(f"{self.name} takes none: it starts from nothing")
        if way.side == "out":
            assert self.result is not None
            self.result.set(way.item, value)
        else:
            self.call.set(way.item, value)
        self.changed = True

    def _output(self, item: Any) -> Any:
        assert self.result is not None
        return None if item and isinstance(self.result.output, Tensor) else self.result.get(item)

    def _zeros(self, item: CallItem) -> Tensor:
        """Zeros of the item's size, for as many rows as the call has."""
        like = next(arg for arg in (*self.call.args, *self.call.kwargs.values()) if isinstance(arg, Tensor))
        return torch.zeros(len(like), *(item.blank or ()), device=like.device)


class Dispatcher:
    """What stands under one function's name in one namespace while some run watches a module that calls it."""

    def __init__(self, names: MutableMapping[str, Any], name: str, module: nn.Module) -> None:
        self.names, self.name, self.was_there = names, name, name in names
        self.function = names[name] if self.was_there else getattr(module, name)
        self.spans: list[Span] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        here = getcurrent()
        span = next((span for span in reversed(tuple(self.spans)) if span.run.forward is here), None)
        if span is None:
            return self.function(*args, **kwargs)
        return span.called(self.name, self.function, args, kwargs)

    def remove(self, span: Span) -> None:
        with _CHANGING:
            self.spans.remove(span)
            if not self.spans and self.names.get(self.name) is self:
                if self.was_there:
                    self.names[self.name] = self.function
                else:
                    del self.names[self.name]


_CHANGING = Lock()
"""Runs in several threads come and go at once."""


def _stand_in(names: MutableMapping[str, Any], name: str, span: Span) -> Dispatcher:
    """Put a dispatcher under a name, or join the one that stands there."""
    with _CHANGING:
        found = names.get(name)
        if not isinstance(found, Dispatcher):
            names[name] = found = Dispatcher(names, name, span.module)
        found.spans.append(span)
        return found


class Span:
    """One module's call in one run: counts the watched functions it calls, and calls back before or after one of them."""

    def __init__(self, run: Run, module: nn.Module, names: Iterable[str]) -> None:
        self.run, self.module = run, module
        self.dispatchers: list[Dispatcher] = []  # while the module runs
        self.counts = Counter[str]()
        self.waiting: dict[tuple[str, int, str], list[Callable[[Calling], None]]] = {}
        self.names = {name: space for name in names if (space := namespace(module, name)) is not None}
        self.hooks = (
            module.register_forward_pre_hook(self.start),
            module.register_forward_hook(self.end, always_call=True),
        )

    @property
    def on(self) -> bool:
        """Whether the module is running."""
        return bool(self.dispatchers)

    def start(self, *_: Any) -> None:
        if getcurrent() is self.run.forward and not self.on:
            self.counts.clear()
            self.dispatchers = [_stand_in(space, name, self) for name, space in self.names.items()]

    def end(self, *_: Any) -> None:
        if getcurrent() is self.run.forward:
            self._off()

    def _off(self) -> None:
        dispatchers, self.dispatchers = self.dispatchers, []
        for dispatcher in dispatchers:
            dispatcher.remove(self)

    def close(self) -> None:
        """Take everything off, also in the middle of a call that was abandoned."""
        for hook in self.hooks:
            hook.remove()
        self._off()

    def called(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stand in for one call of a watched function."""
        number, call = self.counts[name], Call(args, kwargs, function)
        self.counts[name] += 1
        self._meet((name, number, "in"), Calling(name, call))
        result = Result(function(*call.args, **call.kwargs))
        self._meet((name, number, "out"), Calling(name, call, result))
        return result.output

    def _meet(self, key: tuple[str, int, str], payload: Calling) -> None:
        for then in tuple(self.waiting.get(key, ())):
            then(payload)


def _prepare(run: Run, point: Point) -> None:
    """Watch a module's calls from its start, so that a place asked for halfway still has its number."""
    for module, names in point.calling:
        if (key := -id(module)) not in run.watches:
            run.watches[key] = span = Span(run, module, names)
            run.keep(span.close)


def _install(run: Run, point: Point) -> Remover:
    span: Span = run.watches[-id(point.module)]
    keys = [(name, way.index, point.item.stop) for way in point.item.ways for name in way.functions]
    stop = partial(_stop, run, point)
    for key in keys:
        span.waiting.setdefault(key, []).append(stop)

    def remove() -> None:
        for key in keys:
            span.waiting[key].remove(stop)

    return remove


def _stop(run: Run, point: Point, payload: Calling) -> None:
    if run.wants(point.site):
        run.reach(point.site, payload)


def _progress(run: Run, point: Point) -> bool:
    """Whether the watched forward that is running has begun this point's call already."""
    span = run.watches.get(-id(point.module))
    if span is None or not span.on or point.item.stop != "in":
        return False
    return any(span.counts[name] > way.index for way in point.item.ways for name in way.functions)


PREPARE.append(_prepare)
INSTALLERS[CALL] = _install
PROGRESS[CALL] = _progress
