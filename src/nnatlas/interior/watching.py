"""Watching torch functions by name and number while a piece of a forward runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from greenlet import getcurrent
from torch.overrides import TorchFunctionMode

from nnatlas.engine.payloads import Call, Result
from nnatlas.engine.run import Run

Before = Callable[[Call], None]
After = Callable[[Result], None]

_SAME = {"__matmul__": "matmul", "__rmatmul__": "matmul", "baddbmm_": "baddbmm", "softmax_": "softmax"}


class Watch(TorchFunctionMode):
    """A function mode that calls back before or after the n-th call of a named torch function in its run's greenlet.

    The mode is off while a callback runs, so that a body paused in one computes undisturbed.
    """

    def __init__(self, run: Run, counted: Iterable[str]) -> None:
        super().__init__()
        self._run, self._counted = run, frozenset(counted)
        self.begun, self.done = Counter[str](), Counter[str]()
        self._before: dict[tuple[str, int], list[Before]] = {}
        self._after: dict[tuple[str, int], list[After]] = {}

    def before(self, function: str, number: int, then: Before) -> Callable[[], None]:
        """Call back with the arguments of a call; returns what takes it off again."""
        return _added(self._before.setdefault((function, number), []), then)

    def after(self, function: str, number: int, then: After) -> Callable[[], None]:
        """Call back with the result of a call; returns what takes it off again."""
        return _added(self._after.setdefault((function, number), []), then)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        name = _SAME.get(name, name)
        if getcurrent() is not self._run.forward or name not in self._counted:
            return function(*args, **kwargs)
        key = (name, self.begun[name])
        self.begun[name] += 1
        call = Call(args, kwargs)
        for then in tuple(self._before.get(key, ())):
            then(call)
        result = Result(function(*call.args, **call.kwargs))
        self.done[name] += 1
        for finish in tuple(self._after.get(key, ())):
            finish(result)
        return result.output

    def awaits(self, functions: Iterable[str]) -> bool:
        """Whether somebody waits for a call of these that is still to come."""
        waiting = [key for table in (self._before, self._after) for key, callbacks in table.items() if callbacks]
        return any(name in functions and number >= self.begun[name] for name, number in waiting)

    def pass_over(self, functions: Iterable[str]) -> None:
        """Count calls that something else makes in its own way."""
        self.begun.update(functions)
        self.done.update(functions)

    def restart(self) -> None:
        """Count from nought again: a new call of what is watched has begun."""
        self.begun.clear()
        self.done.clear()


def _added(callbacks: list[Any], then: Any) -> Callable[[], None]:
    callbacks.append(then)
    return lambda: callbacks.remove(then)
