"""What a forward holds where it has stopped: a module's arguments, its output, or the tensors of an attention call.

Each answers `get(item)` and `set(item, tensor)`; `changed` says whether the forward must be given something new.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from torch import Tensor, nn

from nnatlas.bind.points import After
from nnatlas.engine.model_call import CACHES

WHOLE = "*"
"""The item that stands for everything a module returned, as it is (native `.output`)."""


class Call:
    """A module about to run, or a torch function about to be called: positional and keyword arguments."""

    __slots__ = ("args", "changed", "forward", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Any = None) -> None:
        self.args, self.kwargs, self.forward, self.changed = args, kwargs, forward, False

    def _where(self, item: int | str | None) -> int | str:
        """A position or a keyword: the asked one, by default the first tensor."""
        if item is None:
            return (
                next((at for at, arg in enumerate(self.args) if isinstance(arg, Tensor)), None) or self._first_keyword()
            )
        if isinstance(item, str) and item not in self.kwargs and self.forward is not None:
            known = _positions(self.forward)
            if item in CACHES:  # under the name that this forward has for it
                item = next((name for name in CACHES if name in self.kwargs or name in known), item)
            at = known.get(item, len(self.args))
            return at if at < len(self.args) else item
        return item

    def _first_keyword(self) -> int | str:
        if self.args and isinstance(self.args[0], Tensor):
            return 0
        if "hidden_states" in self.kwargs:
            return "hidden_states"
        return next((name for name, value in self.kwargs.items() if isinstance(value, Tensor)), 0)

    def get(self, item: int | str | None) -> Any:
        where = self._where(item)
        if isinstance(where, str):
            return self.kwargs.get(where)
        return self.args[where] if where < len(self.args) else None

    def set(self, item: int | str | None, value: Any) -> None:
        where = self._where(item)
        if isinstance(where, str):
            self.kwargs = {**self.kwargs, where: value}
        else:
            self.args = (*self.args[:where], value, *self.args[where + 1 :])
        self.changed = True


@cache
def _positions(forward: Any) -> dict[str, int]:
    """Parameter names of a forward (a function, without `self`) and their positions."""
    names = [name for name in inspect.signature(inspect.unwrap(forward)).parameters if name != "self"]
    return {name: at for at, name in enumerate(names)}


class Result:
    """What a module or function returned: a tensor, a tuple, or a model output with named fields.

    `call` is the module that was called, its arguments and keywords.
    """

    __slots__ = ("call", "changed", "output")

    def __init__(self, output: Any, call: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None = None) -> None:
        self.output, self.call, self.changed = output, call, False

    def get(self, item: Any) -> Any:
        output = self.output
        if isinstance(item, After):
            return self._argument(item.argument)
        if item == WHOLE or isinstance(output, Tensor):
            return output
        if isinstance(item, str):
            return output.get(item) if hasattr(output, "get") else getattr(output, item, None)
        at = item or 0
        return output[at] if at < len(output) else None

    def _argument(self, name: str) -> Any:
        """An argument of the call that is over."""
        if self.call is None:
            return None
        module, args, kwargs = self.call
        return Call(args, kwargs, forward_of(module)).get(name)

    def set(self, item: int | str | None, value: Any) -> None:
        output = self.output
        if item == WHOLE or isinstance(output, Tensor):
            self.output = value
        elif isinstance(item, str) and hasattr(output, "_replace"):  # a named tuple
            self.output = output._replace(**{item: value})
        elif isinstance(item, str):
            output[item] = value
        else:
            at = item or 0
            self.output = type(output)((*output[:at], value, *output[at + 1 :]))
        self.changed = True


class Tensors:
    """Tensors by number, such as an attention call's queries, keys and values."""

    __slots__ = ("changed", "tensors")

    def __init__(self, *tensors: Any) -> None:
        self.tensors, self.changed = list(tensors), False

    def get(self, item: Any) -> Any:
        return self.tensors[item or 0]

    def set(self, item: Any, value: Any) -> None:
        self.tensors[item or 0] = value
        self.changed = True


def forward_of(module: nn.Module) -> Any:
    """The function that names a module's parameters."""
    return type(module).forward
