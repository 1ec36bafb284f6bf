"""A cache that is read and never filled: the keys and values of earlier positions, for however many rows ask.

Rows join the batch on the way up the stack, so each block has its own number of them; and sliding blocks keep every
position here, since the mask, which counts positions from zero, leaves out what their window does not reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class Prefix(CacheLayerMixin):
    """One block's keys and values `[pairs, num_kv_heads, positions, head_dim]`; `rows` names the pair of each row."""

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor, rows: Sequence[int]) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True
        self.rows = rows

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to make ready: the tensors are here from the start."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """What attention reads: the earlier positions, then those of this call."""
        assert self.keys is not None and self.values is not None
        return self._before(self.keys, key_states), self._before(self.values, value_states)

    def _before(self, earlier: Tensor, new: Tensor) -> Tensor:
        of = self.rows[: len(new)]
        alike = len(set(of)) == 1  # one pair needs no copies
        own = earlier[of[:1]].expand(len(new), -1, -1, -1) if alike else earlier[torch.tensor(of, device=new.device)]
        return torch.cat([own, new], dim=-2)

    def get_seq_length(self) -> int:
        """Earlier positions."""
        assert self.keys is not None
        return self.keys.shape[-2]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys that a call of `query_length` positions sees, and the position of the first."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """No limit."""
        return -1


def before(recorded: Any, start: int, rows: Sequence[int]) -> Cache:
    """The first `start` positions of a recorded cache, for rows of these pairs (a list that may grow meanwhile)."""
    return Cache(
        layers=[Prefix(layer.keys[:, :, :start], layer.values[:, :, :start], rows) for layer in recorded.layers]
    )
