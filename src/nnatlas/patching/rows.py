"""The rows of one forward of a sweep: they join where they are patched, as copies of their pair's unpatched row.

What a model has computed for each row before its first block (masks, positions, biases of attention) is the same for all
rows of a pair, since they are prompts of one length without padding.  So where rows have joined, blocks are given copies of
it: hooks do that while a growing forward runs, on any argument that has a row, or a row for each head, for each row there
was at the start or at some block below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


class Rows:
    """Which pair each row is of; the first rows are the unpatched ones, one for each pair."""

    def __init__(self, unpatched: Sequence[int], patched: Iterable[int] = ()) -> None:
        self.first = {pair: at for at, pair in enumerate(unpatched)}
        self.pairs = [*unpatched, *patched]
        self.counts = [len(self.pairs)]  # how many there were, from the start on

    def __len__(self) -> int:
        return len(self.pairs)

    def join(self, pairs: Sequence[int]) -> list[int]:
        """Rows of these pairs join; the numbers of those that they are copies of."""
        self.pairs += pairs
        self.counts.append(len(self.pairs))
        return [self.first[pair] for pair in pairs]

    @property
    def unpatched(self) -> list[int]:
        """For each row the number of its pair's unpatched one."""
        return [self.first[pair] for pair in self.pairs]

    def copied(self, count: int) -> list[int]:
        """For each row one of the first `count`: itself, or what it is a copy of."""
        return [*range(count), *self.unpatched[count:]]


def joined(stream: Tensor, copies: Sequence[int]) -> Tensor:
    """A stream `[rows, ...]` with copies of some of its rows behind."""
    return torch.cat([stream, stream[torch.tensor(copies, device=stream.device)]])


@contextmanager
def following(model: StandardizedTransformer, rows: Rows, length: int) -> Iterator[None]:
    """While a forward over prompts of `length` tokens runs, have what blocks are called with keep up with the rows."""

    bias = torch.Size((rows.counts[0] * getattr(model, "num_heads", 0), 1, length))

    def follow(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if len(rows) == rows.counts[0]:
            return None
        fit = lambda given: _fitted(given, rows, bias)
        return tuple(map(fit, args)), {name: fit(given) for name, given in kwargs.items()}

    hooks = [block._module.register_forward_pre_hook(follow, with_kwargs=True) for block in model.layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _fitted(given: Any, rows: Rows, bias: torch.Size) -> Any:
    """A block's argument for the rows there are now; what has no axis of rows stays as it is.

    `bias` is what a bias of attention, for each row and head there was and each key, is like.
    """
    if isinstance(given, tuple | list):
        return type(given)(_fitted(one, rows, bias) for one in given)
    if not isinstance(given, Tensor) or given.ndim < 2:
        return given
    if given.shape == bias:
        return _copied(given.unflatten(0, (rows.counts[0], -1)), rows).flatten(0, 1)
    return _copied(given, rows) if len(given) in rows.counts[:-1] else given


def _copied(given: Tensor, rows: Rows) -> Tensor:
    """What has as many rows as there were at some time, for the rows there are now."""
    if len(given) == 1:
        return given.expand(len(rows), *given.shape[1:])
    return given[torch.tensor(rows.copied(len(given)), device=given.device)]
