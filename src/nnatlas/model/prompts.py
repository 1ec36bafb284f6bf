"""The prompts of a batch: which positions are real, and what stands there as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.grid import Axis
from nnatlas.model.tokens import token_text

if TYPE_CHECKING:
    from nnatlas.model.transformer import StandardizedTransformer


@dataclass(frozen=True)
class Prompts:
    """Ids and mask of a batch, both `[batch, seq]` and on the CPU; ids are None where a model was called without."""

    input_ids: Tensor | None
    mask: Tensor
    tokenizer: Any

    @classmethod
    def of(cls, model: StandardizedTransformer, input_ids: Any, attention_mask: Any, like: Tensor) -> Prompts:
        """From what a run was called with; `like` `[batch, seq, ...]` gives the sizes where there is no mask."""
        mask = torch.ones(like.shape[:2]) if attention_mask is None else attention_mask
        return cls(None if input_ids is None else input_ids.cpu(), mask.cpu().bool(), model.tokenizer)

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
