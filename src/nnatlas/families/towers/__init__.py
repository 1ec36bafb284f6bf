"""Towers: one row of facts for each kind of image tower, found by the type of its config.

A tower row is a family row whose roles and values stand around patches: `layers`, `patch_embed`, `pre_norm`, `norm`, the
cells of its blocks, and `axes`, which says what the tower has in place of the axes `batch` and `seq` of the layouts
(`attention batch` and `attention seq` where they differ inside the attention call).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from nnatlas.families._row import Family


@cache
def rows() -> dict[str, Family]:
    """Every tower row by the types of vision config that it covers, and by its own name."""
    found: dict[str, Family] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            for row in importlib.import_module(f"{__name__}.{info.name}").TOWERS:
                found |= dict.fromkeys((*row.covers, row.name), row)
    return found


def find(vision_type: str) -> Family | None:
    """The row that covers a type of vision config, or None."""
    return rows().get(vision_type)
