"""What `print(model)` shows, kept without what the vocabulary says anyway: a value's line is its key, written out on the page.

    =block.layer_input                      (layer_input) -> Residual [batch seq hidden_size]: the residual stream ...
    =self_attn.attention_gate [batch seq]   the same with axes of the family's own

So a word that is changed in the vocabulary makes no outline stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nnatlas.values import RARE, VALUES, VISION

_KEPT = re.compile(r"^( *)=(\S+)(?: (.+))?$")
_SHOWN = re.compile(r"^( *)\((\w+)\) -> (.+?): ")
_ALL = VALUES | RARE | VISION


def folded(lines: Iterable[str], notes: Mapping[str, str]) -> tuple[str, ...]:
    """The lines to keep; `notes` are the family's own words on values."""
    return tuple(_folded(line, notes) for line in lines)


def unfolded(lines: Iterable[str], notes: Mapping[str, str]) -> tuple[str, ...]:
    """The lines as they are printed.

    >>> unfolded(["  =logits"], {})
    ('  (logits) -> Logits [batch seq vocab_size]: what the model returns',)
    """
    return tuple(_unfolded(line, notes) for line in lines)


def _folded(line: str, notes: Mapping[str, str]) -> str:
    found = _SHOWN.match(line)
    for key, value in _ALL.items() if found else ():
        if found and value.name == found[2]:
            own = "" if found[3] == str(value.layout) else f" {found[3]}"
            if _unfolded(short := f"{found[1]}={key}{own}", notes) == line:
                return short
    return line


def _unfolded(line: str, notes: Mapping[str, str]) -> str:
    found = _KEPT.match(line)
    if found is None:
        return line
    value = _ALL[found[2]]
    note = f"; {notes[value.name]}" if value.name in notes else ""
    return f"{found[1]}({value.name}) -> {found[3] or value.layout}: {value.doc}{note}"
