"""Pairs of prompts: a clean and a corrupted one, token for token; those of one length are swept together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.engine.inputs import _is_chat
from nnatlas.errors import InputError
from nnatlas.model.pictures import pictures_in
from nnatlas.model.tokens import token_text
from nnatlas.model.vision import takes_images

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


@dataclass(frozen=True)
class Pairs:
    """The ids `[seq]` of every pair's two prompts."""

    tokenizer: Any
    clean: list[Tensor]
    corrupted: list[Tensor]

    def __len__(self) -> int:
        return len(self.clean)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each pair's prompts."""
        return [len(ids) for ids in self.clean]

    def refuse_lengths(self) -> None:
        """`InputError` unless all pairs are of one length, which a grid with positions needs."""
        if len(set(self.lengths)) > 1:
            raise InputError(
                f"pairs of {' and '.join(map(str, sorted(set(self.lengths))))} tokens: a grid has one position axis; "
                "sweep pairs of each length by themselves, or go over='layer' or 'layer x head'"
            )

    def groups(self, tokens: int) -> Iterator[list[int]]:
        """Pairs of one length, as many together as have so many tokens, one at least."""
        for length in sorted(set(self.lengths)):
            same = [pair for pair, own in enumerate(self.lengths) if own == length]
            count = max(1, tokens // length)
            yield from (same[at : at + count] for at in range(0, len(same), count))

    def first_difference(self, pair: int) -> int:
        """The first position at which the two prompts of a pair differ."""
        return int((self.clean[pair] != self.corrupted[pair]).nonzero()[0])

    def labels(self) -> list[str]:
        """A label for each position: its token, both tokens where the two prompts differ, nothing where pairs do."""
        return [self._label(at) for at in range(min(self.lengths))]

    def _label(self, at: int) -> str:
        clean, corrupted = ({int(ids[at]) for ids in prompts} for prompts in (self.clean, self.corrupted))
        if len(clean) > 1 or len(corrupted) > 1:
            return ""
        texts = [token_text(self.tokenizer, token) for (token,) in (clean, corrupted)]
        return texts[0] if clean == corrupted else "|".join(texts)


def pairs_of(model: StandardizedTransformer, clean: Any, corrupted: Any) -> Pairs:
    """Tokenise prompts of both kinds, each in any form that `model.trace` takes.

    Raises:
        InputError: their numbers, or the lengths of a pair, differ (both tokenisations are in the message), or a pair is
            one prompt twice.
    """
    both = _rows(model, clean), _rows(model, corrupted)
    if len(both[0]) != len(both[1]):
        raise InputError(f"{len(both[0])} clean prompts and {len(both[1])} corrupted ones: each needs its counterpart")
    for one, other in zip(*both, strict=True):
        _check_pair(model.tokenizer, one, other)
    return Pairs(model.tokenizer, list(map(torch.tensor, both[0])), list(map(torch.tensor, both[1])))


def _rows(model: StandardizedTransformer, prompts: Any) -> list[list[int]]:
    """Ids of every prompt, padding left out; the forward is abandoned before it begins."""
    if (isinstance(prompts, Mapping) and takes_images(prompts)) or (_is_chat(prompts) and pictures_in(prompts)):
        raise InputError(
            "a sweep runs token ids alone, so pictures would be left out. For them: nnatlas.vision.image_token_effects(model, "
            "prompt, picture, instead=other), or patch what a run with the other picture lent in model.trace(prompt, images=[...])"
        )
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
