"""Where an edit acts: positions counted among each row's real tokens, on the prompt, on new tokens, or on both.

Padding never counts, on whichever side it is: 0 is a row's first token and -1 its last.  A token of the prompt is counted
with the whole prompt, a new one with what there was when it was read; so -1 is the prompt's last token and then every new
one, and an edit in a generation without a cache, which computes all positions again each time, is the same as with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from nnatlas.engine.model_call import ModelCall
from nnatlas.errors import InputError

Positions = int | slice | Sequence[int] | Sequence[Sequence[int]] | None
ON = ("prompt", "new", "both")


@dataclass(frozen=True)
class Where:
    """`positions` is a number, a slice, several numbers, several for each row, or None for all; `on` one of `ON`."""

    positions: Any = None
    on: str = "both"

    def __post_init__(self) -> None:
        if self.on not in ON:
            raise InputError(f'on={self.on!r}: an edit acts on="prompt", on="new" (the tokens generated) or on="both"')
        if isinstance(self.positions, Sequence):
            object.__setattr__(self, "positions", _plain(self.positions))
        elif not (self.positions is None or isinstance(self.positions, slice) or _whole(self.positions)):
            raise _not_positions(self.positions)
        if isinstance(self.positions, slice):
            start, stop, step = self.positions.start, self.positions.stop, self.positions.step
            if not all(end is None or _whole(end) for end in (start, stop, step)):
                raise _not_positions(self.positions)
            if step is not None and step < 1:
                raise InputError(f"positions {self.positions}: a slice goes forward, its step is 1 or more")

    @property
    def everywhere(self) -> bool:
        """Whether no position is left out, not even padding."""
        return self.positions is None and self.on == "both"

    def columns(self, call: ModelCall) -> Tensor:
        """Which columns are chosen, those of the cache included: `[batch, past + seq]`, bool."""
        chosen = call.real
        if self.on != "both":
            chosen = chosen & (call.new if self.on == "new" else ~call.new)
        return chosen if self.positions is None else chosen & self._at(call)

    def chosen(self, call: ModelCall) -> Tensor | None:
        """Which positions of this call are chosen, `[batch, seq]`, bool; None where every position is."""
        return None if self.everywhere else call.here(self.columns(call))

    def put(self, call: ModelCall, new: Tensor, old: Tensor) -> Tensor:
        """`new` at the chosen positions and `old` elsewhere, both `[batch, seq, ...]`."""
        chosen = self.chosen(call)
        if chosen is None:
            return new
        return torch.where(chosen.reshape(*chosen.shape, *[1] * (old.ndim - 2)).to(old.device), new, old)

    def _at(self, call: ModelCall) -> Tensor:
        if isinstance(self.positions, slice):
            return _within(call, self.positions)
        if _whole(self.positions):
            return self._number(call, self.positions)
        if self.positions and isinstance(self.positions[0], tuple):
            return self._by_row(call)
        found = (self._number(call, one) for one in self.positions)
        return reduce(torch.logical_or, found, torch.zeros_like(call.real))

    def _by_row(self, call: ModelCall) -> Tensor:
        if len(self.positions) != call.batch:
            raise InputError(f"positions for {len(self.positions)} rows, but this call has {call.batch}")
        rows = [Where(row, self.on)._at(call)[at] for at, row in enumerate(self.positions)]
        return torch.stack(rows)

    def _number(self, call: ModelCall, wanted: int) -> Tensor:
        """Where a row's token number `wanted` stands; a prompt that is too short for it is an error."""
        if not call.past and self.on != "new" and (wanted < 0 or self.on == "prompt"):
            lengths = call.real[:, : call.prompt].sum(1)
            short = (lengths < (-wanted if wanted < 0 else wanted + 1)).nonzero().flatten().tolist()
            if short:
                raise InputError(f"position {wanted} of row {short[0]}, which has {int(lengths[short[0]])} tokens")
        return call.numbers == (call.counts + wanted if wanted < 0 else wanted)

    @property
    def words(self) -> str:
        """In words, for descriptions."""
        tokens = {"prompt": "of the prompt", "new": "of the new tokens", "both": "of prompt and new tokens"}[self.on]
        if self.positions is None:
            return f"at every position {tokens}"
        if isinstance(self.positions, slice):
            ends = (self.positions.start, self.positions.stop, self.positions.step)
            shown = ":".join("" if end is None else str(end) for end in ends[: 2 + (ends[2] is not None)])
            return f"at positions [{shown}] {tokens}"
        return f"at position{'' if _whole(self.positions) else 's'} {_shown(self.positions)} {tokens}"


def _within(call: ModelCall, wanted: slice) -> Tensor:
    """A slice of each row's tokens."""
    end = lambda number: call.counts + number if number < 0 else number
    found = torch.ones_like(call.real)
    if wanted.start is not None:
        found = found & (call.numbers >= end(wanted.start))
    if wanted.stop is not None:
        found = found & (call.numbers < end(wanted.stop))
    if wanted.step is not None:
        start = end(wanted.start or 0)
        found = found & (
            (call.numbers - (start.clamp(min=0) if isinstance(start, Tensor) else start)) % wanted.step == 0
        )
    return found


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _plain(positions: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers, or a tuple of numbers for each row."""
    if not isinstance(positions, str):
        if all(_whole(one) for one in positions):
            return tuple(positions)
        rows = [one for one in positions if isinstance(one, Sequence) and not isinstance(one, str)]
        if len(rows) == len(positions) and all(_whole(one) for row in rows for one in row):
            return tuple(tuple(row) for row in rows)
    raise _not_positions(positions)


def _not_positions(positions: Any) -> InputError:
    return InputError(
        f"positions={positions!r}: positions are a whole number, a slice, a list of numbers, or one such list for each row"
    )


def _shown(positions: Any) -> str:
    return str(positions) if _whole(positions) else f"[{', '.join(map(_shown, positions))}]"
