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

from nnatlas.patching.cells import Patch
from nnatlas.patching.rows import Rows


class Packing:
    """Which tokens of the rows of one forward, `rows seq`, are not those of their pair's unpatched row."""

    def __init__(self, rows: Rows, start: int, length: int) -> None:
        self.rows, self.start, self.length = rows, start, length
        self.changed_from = [0] * len(rows.first)

    def join(self, patches: Iterable[Patch]) -> None:
        """Rows join, each changed from its cell's position on (from the beginning, where that is every position)."""
        places = (patch.cell.position for patch in patches)
        self.changed_from += [0 if place is None else place - self.start for place in places]

    def changed(self, last: bool) -> Tensor:
        """The tokens to compute, `rows seq`; of the last block only those that are read."""
        first = [self.length - 1] * len(self.rows) if last else self.changed_from
        return torch.arange(self.length) >= torch.tensor(first)[:, None]

    def run_mlp(self, block: Any, last: bool) -> None:
        """Let a block's MLP run on the tokens to compute, and give all others what it wrote for the unpatched row."""
        changed = self.changed(last)
        if bool(changed.all()):
            return
        changed = changed.to(block.mlp_input.device)
        block.mlp_input = block.mlp_input[changed][None]
        written = block.mlp.mlp_output[0]
        plain = len(self.rows.first)
        own = 1 if last else self.length  # in the last block unpatched rows, too, are their last position alone
        whole = written.new_zeros(len(changed), self.length, written.shape[-1])
        unpatched = written[: plain * own].unflatten(0, (plain, own))
        whole[:, -own:] = unpatched[torch.tensor(self.rows.unpatched, device=written.device)]
        whole[changed] = written
        block.mlp.mlp_output = whole
