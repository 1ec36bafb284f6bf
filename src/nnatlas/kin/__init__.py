"""Kin: the names that other libraries have for our values, and a search over them.

    >>> kin.find("blocks.3.hook_resid_mid")[0].ours
    'block.layer_mid'

`names` is the table, `paths` reads module paths off the family rows.  Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from nnatlas.errors import InputError
from nnatlas.kin import paths
from nnatlas.kin.names import LIBRARIES
from nnatlas.values import VALUES

OURS = "nnatlas"
NEAR = 6
"""How many names a search offers where none is the one asked for."""
SHOWN = 5
"""How many model types are listed with a module path."""


@dataclass(frozen=True, slots=True)
class Kin:
    """A name in a library and our value; `ours` is empty where there is none, and `difference` says what to do."""

    library: str
    theirs: str
    ours: str
    difference: str = ""

    @property
    def typed(self) -> str:
        """Our name as it is typed: `model.layers[i].self_attn.attention_scores`."""
        return VALUES[self.ours].typed if self.ours else "(no value)"

    @property
    def meaning(self) -> str:
        """What our value is."""
        return VALUES[self.ours].doc if self.ours else ""

    def as_data(self) -> dict[str, Any]:
        """The name as plain data, for JSON."""
        return {
            "library": self.library, "theirs": self.theirs, "value": self.ours or None,
            "typed": self.typed if self.ours else None, "meaning": self.meaning, "difference": self.difference,
        }  # fmt: skip


@cache
def table() -> tuple[Kin, ...]:
    """Every name of every library, in the table's order."""
    return tuple(
        Kin(library, *(cell.strip() for cell in line.split("|")))
        for library, lines in LIBRARIES.items()
        for line in lines.strip().splitlines()
    )


def find(name: str) -> list[Kin]:
    """The values that other libraries call `name`, best first; near ones where nothing is called just that.

    A name may carry its block (`blocks.3.attn.hook_z`), be a module path (`transformer.h.0.attn.c_proj.input`), one of
    our own, a part of one, or a word of a description ("rotary").

    Raises:
        InputError: nothing is near.
    """
    found = _named(name) or _at_path(name) or _near(name)
    if not found:
        raise InputError(
            f"no library we know calls a value {name!r}; names look like hook_resid_mid, layers_output, "
            "hidden_states[3] or model.layers.3.mlp.down_proj.input"
        )
    return found


def _named(name: str) -> list[Kin]:
    """Names that are the one asked for, block numbers and prefixes aside; the fuller the match, the better."""
    for key in (_plain, _last, _core):
        asked = key(name)
        found = [one for one in table() if asked and key(one.theirs) == asked]
        own = [Kin(OURS, one, one) for one, value in VALUES.items() if asked in (key(one), key(value.name))]
        if found or own:
            return own + found
    return []


def _at_path(name: str) -> list[Kin]:
    """Values at a module path, with the model types for which it holds."""
    found = paths.look_up(name).items() if "." in name else ()
    return [Kin("transformers", place, key, _holds(types, unless)) for (place, key, unless), types in found]


def _holds(types: list[str], unless: str) -> str:
    """Where a module path is a value's place, in words."""
    more = f" and {len(types) - SHOWN} more" if len(types) > SHOWN else ""
    return f"on {', '.join(types[:SHOWN])}{more}" + (f", where there is no {unless}" if unless else "")


def _near(name: str) -> list[Kin]:
    """Names that look alike, then values whose name or description has every word asked for."""
    everything = [*table(), *(Kin(OURS, value, value) for value in VALUES)]
    cores: dict[str, list[Kin]] = {}
    for one in everything:
        cores.setdefault(_core(one.theirs), []).append(one)
    close = [one for core in difflib.get_close_matches(_core(name), cores, NEAR, 0.6) for one in cores[core]]
    words = [word for word in re.split(r"[\W_]+", name.lower()) if len(word) > 1]
    told = [one for one in everything if words and all(word in _words(one) for word in words)]
    return list(dict.fromkeys([*close, *told]))[: 2 * NEAR]


def _words(one: Kin) -> str:
    return f"{one.theirs} {one.ours} {one.meaning} {one.difference}".lower()


def _plain(name: str) -> str:
    """Without the block: `blocks.3.attn.hook_z` and `layers[3].attn.hook_z` are `attn.hook_z`."""
    bare = re.sub(r"^(?:model\.)?(?:blocks|layers|h)(?:\.|\[)-?\w+\]?\.", "", name.strip().lower())
    return re.sub(r"\[(?:\d+|:|i)\]$", "[i]", bare).removesuffix("[i]")


def _last(name: str) -> str:
    """The last part: `attn.hook_z` is `hook_z`."""
    return _plain(name).rpartition(".")[2]


def _core(name: str) -> str:
    """Without the habit of the library: `hook_resid_pre` and the cache's short `resid_pre` are one."""
    return _last(name).removeprefix("hook_")
