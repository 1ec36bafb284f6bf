"""Native module paths as names: `transformer.h.3.attn.c_proj.input` is `attention_premix` where a row says so.

Read off the family rows, so there is nothing to keep up to date: a path counts for the model types whose roles lie
there.  A path without `.input` or `.output` is looked up on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from nnatlas import families, places
from nnatlas.families._row import ROLES, Cell, Family
from nnatlas.places import Side

_SIDES = {"input": "in", "output": "out", "in": "in", "out": "out", "inputs": "in"}


def look_up(path: str) -> dict[tuple[str, str, str], list[str]]:
    """The values at a module path: `(path > side, value, unless)` and the model types where it holds.

    `unless` names the places that go before this one, where the model has them: `q_norm > out` before `q_proj > out`.
    """
    wanted, side = _parts(path)
    return {
        (f"{own} > {own_side}", key, unless): types
        for (own, own_side, key, unless), types in _index().items()
        if own == wanted and side in (None, own_side)
    }


def _parts(path: str) -> tuple[str, str | None]:
    """A path with block numbers as `*`, without what wraps it, and its side if it names one."""
    plain = re.sub(r"\[(-?\d+)\]", r".\1", path.strip()).replace("_module.", "")
    plain = re.sub(r"(?<=put)\.-?\d+$", "", plain)  # element of a tuple: output[0]
    head, _, last = plain.rpartition(".")
    side = _SIDES.get(last)
    return _bare(re.sub(r"\.-?\d+(?=\.|$)", ".*", head if side else plain)), side


def _bare(path: str) -> str:
    """Without the wrappers' own `model.` in front."""
    return re.sub(r"^(model\.)+(?=.)", "", path)


@cache
def _index() -> dict[tuple[str, str, str, str], list[str]]:
    """Every module side that a row reads a value at, with the model types."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for name, family in families.rows().items():
        for entry in dict.fromkeys(_sides(family)):
            found.setdefault(entry, []).append(name)
    return found


def _sides(family: Family) -> Iterator[tuple[str, str, str, str]]:
    """Every (path, side, value, unless) of a row, but for parts of fused projections."""
    for key, cell in family.cells.items():
        before: list[str] = []
        for text in () if key in ROLES else _texts(cell):
            place = places.parse(text)
            if not isinstance(place.source, Side) or (place.pattern and place.pattern.pick is not None):
                continue
            source, unless = place.source, " or ".join(before)
            yield from ((path, source.side, key, unless) for path in _paths(family, source.path))
            before.append(f"{source.path} > {source.side}")


def _paths(family: Family, role: str) -> list[str]:
    """Where a role lies, from the root, block numbers as `*`."""
    if role == "block":
        return [f"{stack}.*" for stack in _paths(family, "layers")]
    starts, host = {"root": [""]}, ROLES.get(role)
    if host is None:
        return []
    found = []
    for text in _texts(family.cells[role]):
        head, _, rest = text.partition(".")
        if head == "base" and role != "base":
            starts[head] = _texts(family.cells["base"])
        elif head != "root":
            head, rest = host, rest if head == "block" else text
            starts[head] = [""] if host == "model" else _paths(family, "block" if text != rest else host)
        found += [_bare(".".join(part for part in (start, rest) if part)) for start in starts[head]]
    return found


def _texts(cell: Cell) -> list[str]:
    return [one for one in (cell if isinstance(cell, tuple) else (cell,)) if isinstance(one, str)]
