"""What one call of the whole model reads: which positions are tokens, the number of each in its row, and which are new.

Positions are counted over the *columns* of the sequence so far, those of a cache included; the call itself computes the last
`seq` of them.  The attention mask of the call says which columns are tokens, so rows padded on either side come out alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

CACHES = ("past_key_values", "cache", "cache_params")


class ModelCall:
    """One call of the model, as functions of standing edits are told of it.

    `batch` and `seq` are the call's size, `past` the columns that a cache holds already, `prompt` those of the prompt (what
    a run's first call reads; outside a run, what was in no cache).  `notes` lasts as long as the call: a place for what one
    function leaves for another further up.  `alike` says that rows are run side by side that would be run alone (those of a run
    that grows), so that whatever is drawn at random is drawn alike for all of them.
    """

    alike = False

    def __init__(self, size: list[int], mask: Any, past: int, prompt: int | None, device: torch.device) -> None:
        self.batch, self.seq = size
        usable = isinstance(mask, Tensor) and mask.ndim == 2 and mask.shape[0] == self.batch
        self._mask = mask if usable and mask.shape[1] >= self.seq else None
        self.past = past if self._mask is None else max(past, self._mask.shape[1] - self.seq)
        self.prompt = prompt if prompt is not None else self.past or self.seq
        self._device = device
        self.notes: dict[Any, Any] = {}

    def with_rows(self, rows: int) -> ModelCall:
        """The same call with as many rows, all like the first: a run that grows has others than its call began with."""
        if rows == self.batch:
            return self
        mask = None if self._mask is None else self._mask[:1].expand(rows, -1)
        made = ModelCall([rows, self.seq], mask, self.past, self.prompt, self._device)
        made.notes, made.alike = self.notes, self.alike
        return made

    @property
    def width(self) -> int:
        """Columns so far, this call's included."""
        return self.past + self.seq

    @cached_property
    def real(self) -> Tensor:
        """Which columns are tokens, not padding: `[batch, past + seq]`, bool."""
        found = torch.ones(self.batch, self.width, dtype=torch.bool, device=self._device)
        if self._mask is not None:
            found[:, -self._mask.shape[1] :] = self._mask.bool()
        return found

    @cached_property
    def numbers(self) -> Tensor:
        """The number of each column's token in its row, from 0: `[batch, past + seq]`; meaningless at padding."""
        return self.real.cumsum(1) - 1

    @cached_property
    def new(self) -> Tensor:
        """Which columns come after the prompt: `[past + seq]`, bool."""
        return torch.arange(self.width, device=self._device) >= self.prompt

    @cached_property
    def counts(self) -> Tensor:
        """How many tokens its row had when a column was read: `[batch, past + seq]`.

        A token of the prompt was read with the whole prompt.  A new one was read alone, unless this call reads several on
        top of a cache; so an edit without a cache, where every call computes all columns again, is the same as with one.
        """
        of_prompt = self.real[:, : self.prompt].sum(1, keepdim=True)
        of_new = self.real.sum(1, keepdim=True) if self.past else self.numbers + 1
        return torch.where(self.new, of_new, of_prompt)

    def here(self, columns: Tensor) -> Tensor:
        """Of something about all columns, the part that this call computes: `[batch, seq]`."""
        return columns[..., -self.seq :]


def cached_columns(kwargs: Mapping[str, Any], read: Mapping[Any, int]) -> int:
    """How many columns a call's cache holds; `read` remembers it for caches that do not count.

    >>> cached_columns({"past_key_values": None}, {})
    0
    """
    cache = cache_of(kwargs)
    if cache is None:
        return 0
    try:
        return int(cache.get_seq_length())
    except (TypeError, ValueError):  # a recurrent state has no length
        return read.get(cache, 0)


def cache_of(kwargs: Mapping[str, Any]) -> Any:
    """The cache object that a call was given, or None."""
    return next((kwargs[name] for name in CACHES if hasattr(kwargs.get(name), "get_seq_length")), None)
