"""Packages that can be called: `nnatlas.check(model)` works, and so does `from nnatlas.check import ...`.

Python sets a submodule as an attribute of its parent when it is imported, so a function of the same name on the parent
would be lost at the first `import nnatlas.check`.  Instead the package itself answers the call, whatever was imported
first and by whom.  One line at the end of the package's `__init__` does it:

    make_callable(__name__, check)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Let calls to the imported module `package` go to `function`, with its signature and docstring.

    Example:
        >>> make_callable("nnatlas.pull", pull)  # doctest: +SKIP
        >>> nnatlas.pull("smollm2")  # doctest: +SKIP
    """

    @functools.wraps(function)
    def call(_module: ModuleType, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    module = sys.modules[package]
    module.__class__ = type("CallablePackage", (ModuleType,), {"__call__": call})
    module.__wrapped__ = function  # type: ignore[attr-defined]  # inspect.signature and help() follow it
