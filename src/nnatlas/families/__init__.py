"""The families: one small file of facts each, found by the file's name or the types it covers.

There is no list to edit: a file `families/<name>.py` with a `FAMILY` registers it.  Nothing here imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from functools import cache
from importlib.metadata import version

from nnatlas.families._row import Family
from nnatlas.families._since import SINCE


@cache
def rows() -> dict[str, Family]:
    """Every family row by model type."""
    found: dict[str, Family] = {}
    for name in sorted(_files()):
        family: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
        found |= dict.fromkeys(family.covers, family)
    return found


def _files() -> set[str]:
    """The names of the files that hold a row each."""
    names = os.listdir(__path__[0])  # noqa: PTH208  pathlib would be a tenth of what reading the whole table costs
    return {name.removesuffix(".py") for name in names if name.endswith(".py") and not name.startswith("_")}


def find(model_type: str) -> Family | None:
    """The row that covers a model type, or None.  A file of that very name is read without reading the others."""
    name = model_type.replace("-", "_").replace(".", "_")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        family: Family = importlib.import_module(f"{__name__}.{name}").FAMILY
        if model_type in family.covers:
            return family.parsed()
    row = rows().get(model_type)
    return None if row is None else row.parsed()


def lacking(model_type: str) -> str:
    """Why the installed transformers has no such type, where it is too old for it; else an empty string.

    >>> families.lacking("llama")
    ''
    """
    since = SINCE.get(model_type)
    if since is None or _numbers(installed()) >= _numbers(since):
        return ""
    return (
        f"model_type {model_type!r} needs transformers {since}; installed is {installed()}. "
        f"Type: pip install 'transformers>={since}'"
    )


@cache
def installed() -> str:
    """The version of transformers that is installed, without importing it."""
    return version("transformers")


def _numbers(release: str) -> tuple[int, ...]:
    """`5.24.0.dev0` as something to compare: (5, 24, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:3])
