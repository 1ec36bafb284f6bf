"""The families: one small file of facts each, found by the file's name or the types it covers.

There is no list to edit: a file `families/<name>.py` with a `FAMILY` registers it.  Nothing here imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache

from nnatlas.families._row import Family


@cache
def rows() -> dict[str, Family]:
    """Every family row by model type."""
    found: dict[str, Family] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            family: Family = importlib.import_module(f"{__name__}.{info.name}").FAMILY
            found |= dict.fromkeys(family.covers, family)
    return found


def find(model_type: str) -> Family | None:
    """The row that covers a model type, or None.  A file of that very name is read without reading the others."""
    name = model_type.replace("-", "_").replace(".", "_")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        family: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
        if model_type in family.covers:
            return family
    return rows().get(model_type)
