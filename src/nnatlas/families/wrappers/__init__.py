"""Wrappers: rows that say how images get into a text model, found by the wrapper's model type."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from nnatlas.families._wrapper import Without, Wrapper


@cache
def rows() -> dict[str, Wrapper | Without]:
    """Every wrapper row, or the reason why there is none, by model type."""
    found: dict[str, Wrapper | Without] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            for row in importlib.import_module(f"{__name__}.{info.name}").WRAPPERS:
                found |= dict.fromkeys(row.covers, row)
    return found


def find(model_type: str) -> Wrapper | Without | None:
    """The row of a wrapper type, or None for a model that takes no images."""
    return rows().get(model_type)
