"""Packing: MLPs run on the tokens that a sweep's rows change, and on no others.

An MLP, with the norms around it, reads each token by itself.  A row that is patched at a later position than its forward
begins with has the unpatched row's tokens in front, whose MLP output is therefore the unpatched row's; and in the last
block only the last position is read.  What is left goes through the MLP as one long row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from nnatlas.patching.cells import Cell


class Packing:
    """Which tokens of the rows of one forward, `rows seq`, are not the unpatched row's; its first row is that itself."""

    def __init__(self, start: int, length: int) -> None:
        self.start, self.length, self.first = start, length, [0]

    def join(self, cells: Iterable[Cell]) -> None:
        """Rows join, each changed from its cell's position on (from the beginning, where that is every position)."""
        self.first += [cell.position - self.start if cell.position is not None else 0 for cell in cells]

    def changed(self, last: bool) -> Tensor:
        """The tokens to compute, `rows seq`; of the last block only those that are read."""
        first = [self.length - 1] * len(self.first) if last else self.first
        return torch.arange(self.length) >= torch.tensor(first)[:, None]

    def run_mlp(self, block: Any, last: bool) -> None:
        """Let a block's MLP run on the tokens to compute, and give all others what it wrote for the unpatched row."""
        changed = self.changed(last)
        if bool(changed.all()):
            return
        changed = changed.to(block.mlp_input.device)
        block.mlp_input = block.mlp_input[changed][None]
        written = block.mlp.mlp_output[0]
        own = int(changed[0].sum())  # in the last block the unpatched row, too, is its last position alone
        whole = written.new_zeros(*changed.shape, written.shape[-1])
        whole[:, -own:] = written[:own]
        whole[changed] = written
        block.mlp.mlp_output = whole
