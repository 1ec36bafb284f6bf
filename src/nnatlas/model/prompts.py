"""The prompts of a batch: which positions are real, and what stands there as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from nnatlas.grid import Axis
from nnatlas.model.tokens import token_text

if TYPE_CHECKING:
    from nnatlas.model.transformer import StandardizedTransformer


CALL: Final = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Prompts:
    """Ids and mask of a batch, both `[batch, seq]` and on the CPU; ids are None where a model was called without."""

    input_ids: Tensor | None
    mask: Tensor
    tokenizer: Any

    @classmethod
    def of(cls, model: StandardizedTransformer, input_ids: Any, attention_mask: Any, like: Tensor) -> Prompts:
        """From what a run was called with; `like` `[batch, seq, ...]` gives the sizes where there is no mask.

        Where the model reads a learned prompt in front of the ids, they name no positions and are left out.
        """
        mask = torch.ones(like.shape[:2]) if attention_mask is None else attention_mask
        named = input_ids is not None and input_ids.shape == mask.shape
        return cls(input_ids.cpu() if named else None, mask.cpu().bool(), model.tokenizer)

    @classmethod
    def in_run(cls, model: StandardizedTransformer) -> Prompts:
        """Of the run that is open and still at its start."""
        ids, mask = (getattr(model, name) if name in called_with(model) else None for name in CALL)
        return cls.of(model, ids, mask, torch.empty(*model.input_size))

    def __len__(self) -> int:
        return len(self.mask)

    def real(self, row: int) -> list[int]:
        """The positions of a row that are not padding."""
        return [int(at) for at in self.mask[row].nonzero()]

    def axis(self, row: int, name: str = "position") -> Axis:
        """The real positions of a row as an axis."""
        return Axis(name, [self._text(row, at) for at in self.real(row)], numbered=True)

    def _text(self, row: int, at: int) -> str:
        return "" if self.input_ids is None else token_text(self.tokenizer, int(self.input_ids[row, at]))


def called_with(model: StandardizedTransformer) -> list[str]:
    """What the model is called with, of ids and mask: some take none of one of them."""
    return [name for name in CALL if model._owner.root.absence(name) is None]


def read(
    model: StandardizedTransformer, inputs: Any, names: Iterable[str], **keywords: Any
) -> tuple[dict[str, Any], Prompts]:
    """Values `batch seq ...` by name or pattern, as `model.collect` has them, and the prompts they are of; without a graph."""
    with torch.no_grad():
        found = dict(model.collect(inputs, [*names, *called_with(model)], **keywords))
    ids, mask = (found.pop(name, None) for name in CALL)
    return found, Prompts.of(model, ids, mask, next(iter(found.values())))
