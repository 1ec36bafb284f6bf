"""Pairs of prompts: a clean and a corrupted one, token for token of one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.model.tokens import token_text

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


@dataclass(frozen=True)
class Pairs:
    """The ids of every pair, `pairs seq` each."""

    tokenizer: Any
    clean: Tensor
    corrupted: Tensor

    def __len__(self) -> int:
        return len(self.clean)

    @property
    def length(self) -> int:
        """Tokens of every prompt."""
        return self.clean.shape[1]

    def first_difference(self, pair: int) -> int:
        """The first position at which the two prompts of a pair differ."""
        return int((self.clean[pair] != self.corrupted[pair]).nonzero()[0])

    def labels(self) -> list[str]:
        """A label for each position: its token, both tokens where the two prompts differ, nothing where pairs do."""
        return [self._label(at) for at in range(self.length)]

    def _label(self, at: int) -> str:
        clean, corrupted = self.clean[:, at].unique().tolist(), self.corrupted[:, at].unique().tolist()
        if len(clean) > 1 or len(corrupted) > 1:
            return ""
        texts = [token_text(self.tokenizer, token) for token in (clean[0], corrupted[0])]
        return texts[0] if clean == corrupted else "|".join(texts)


def pairs_of(model: StandardizedTransformer, clean: Any, corrupted: Any) -> Pairs:
    """Tokenise prompts of both kinds, each in any form that `model.trace` takes.

    Raises:
        InputError: their numbers or lengths differ (both tokenisations are in the message), or a pair is one prompt twice.
    """
    both = _rows(model, clean), _rows(model, corrupted)
    if len(both[0]) != len(both[1]):
        raise InputError(f"{len(both[0])} clean prompts and {len(both[1])} corrupted ones: each needs its counterpart")
    for one, other in zip(*both, strict=True):
        _check_pair(model.tokenizer, one, other)
    lengths = {len(row) for row in both[0]}
    if len(lengths) > 1:
        raise InputError(
            f"pairs of {' and '.join(map(str, sorted(lengths)))} tokens: a sweep has one position axis; sweep pairs of "
            "each length by themselves"
        )
    return Pairs(model.tokenizer, torch.tensor(both[0]), torch.tensor(both[1]))


def _rows(model: StandardizedTransformer, prompts: Any) -> list[list[int]]:
    """Ids of every prompt, padding left out; the forward is abandoned before it begins."""
    found = model.collect(prompts, ["input_ids", "attention_mask"])
    ids, mask = found["input_ids"], found["attention_mask"]
    mask = torch.ones_like(ids) if mask is None else mask
    return [row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True)]


def _check_pair(tokenizer: Any, clean: Sequence[int], corrupted: Sequence[int]) -> None:
    if len(clean) != len(corrupted):
        shown = "; ".join(_spelled(tokenizer, name, row) for name, row in (("clean", clean), ("corrupted", corrupted)))
        raise InputError(
            f"a value is patched at its own position, so a pair must be of one length, token for token: {shown}. "
            "Choose words of equally many tokens"
        )
    if list(clean) == list(corrupted):
        raise InputError(f"clean and corrupted are the same tokens: {list(_texts(tokenizer, clean))}")


def _spelled(tokenizer: Any, name: str, row: Sequence[int]) -> str:
    return f"{name} is {len(row)} tokens, {list(_texts(tokenizer, row))}"


def _texts(tokenizer: Any, row: Sequence[int]) -> Iterator[str]:
    return (token_text(tokenizer, token) for token in row)
