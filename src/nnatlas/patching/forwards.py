"""One forward of a sweep: unpatched rows, one for each pair, and a row for each patch, read out at the last position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nnatlas.patching.cells import Cell, Patch, end_of, node
from nnatlas.patching.packing import Packing
from nnatlas.patching.prefix import before
from nnatlas.patching.rows import Rows, following, joined
from nnatlas.patching.stack import Stack


@dataclass
class Forward:
    """Prompts `ids` `[pairs, seq]` and the patches that are put into them, with numbers from `source`, by block.

    `start` leaves out the positions before, whose keys and values `cache` holds; `recorder` is filled with all of them.
    With `growing`, rows join where they are patched; with `packed`, MLPs run on what they change only.  `pairs` are those
    that have an unpatched row: by default those of the patches.
    """

    stack: Stack
    ids: Tensor
    patches: Sequence[Patch] = ()
    source: Mapping[int, Tensor] = field(default_factory=dict)
    start: int = 0
    cache: Any = None
    recorder: Any = None
    growing: bool = False
    packed: bool = False
    pairs: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.patches = sorted(self.patches, key=lambda patch: patch.cell.layer)
        self.pairs = list(self.pairs) or sorted({patch.pair for patch in self.patches})
        there = self._there() if self.growing else self.patches
        self.rows = Rows(self.pairs, [patch.pair for patch in there])
        self.packing = Packing(self.rows, self.start, self.ids.shape[1] - self.start)
        self.packing.join(there)

    def run(self, keep: dict[int, Tensor] | None = None) -> Tensor:
        """Logits `[pairs + patches, vocab_size]`, float32; `keep` receives the value of the unpatched rows, by block."""
        cache = self.recorder if self.cache is None else before(self.cache, self.start, self.rows.pairs)
        call = self.stack.call(self.ids[self.rows.pairs], self.start, cache)
        follow = following(self.stack.model, self.rows, self.ids.shape[1]) if self.growing else nullcontext()
        with torch.no_grad(), follow, self.stack.model.trace(**call) as run:
            for layer, block in enumerate(run.layers):
                self._go_through(run, layer, block, keep)
            return self.stack.logits(run, self.growing)

    def _go_through(self, run: Any, layer: int, block: Any, keep: dict[int, Tensor] | None) -> None:
        """One block: what leaves it is patched once its MLP is done, anything else before, by rows that are there already."""
        last = layer == len(run.layers) - 1
        if self.stack.swept.leaving:
            self._run_mlp(block, last)
            self._grow(block, self._joining(layer))
            self._patch(run, layer, keep)
        else:
            self._patch(run, layer, keep)
            self._run_mlp(block, last)
            self._grow(block, self._joining(layer + 1))

    def _there(self) -> list[Patch]:
        """The patches whose rows are there from the start of a growing forward."""
        return [] if self.stack.swept.leaving else self._joining(0)

    def _joining(self, layer: int) -> list[Patch]:
        return [patch for patch in self.patches if patch.cell.layer == layer]

    def _run_mlp(self, block: Any, last: bool) -> None:
        if self.packed:
            self.packing.run_mlp(block, last)

    def _grow(self, block: Any, patches: Sequence[Patch]) -> None:
        """Let rows join what leaves a block, as copies of their pair's unpatched row."""
        if self.growing and patches:
            stream = block.layer_output  # the block is called here, with the rows so far
            copies = self.rows.join([patch.pair for patch in patches])
            self.packing.join(patches)
            block.layer_output = joined(stream, copies)

    def _patch(self, run: Any, layer: int, keep: dict[int, Tensor] | None) -> None:
        here = [(len(self.pairs) + at, patch) for at, patch in enumerate(self.patches) if patch.cell.layer == layer]
        if here or (keep is not None and layer in self.stack.names):
            value = getattr(*node(run, self.stack.names[layer]))
            if keep is not None:
                keep[layer] = value[: len(self.pairs)].clone()
            for row, patch in here:
                self.put(value[row], patch)

    def put(self, row: Tensor, patch: Patch) -> None:
        """Write the source run's numbers into one row of the value."""
        target = row[self.stack.swept.index(patch.cell, self.ids.shape[1])]
        target.copy_(end_of(part(self.stack, self.source, patch), target))


def part(stack: Stack, values: Mapping[int, Tensor], patch: Patch) -> Tensor:
    """What a patch's cell names, of its pair's row of the value."""
    cell: Cell = patch.cell
    value = values[cell.layer][patch.pair]
    length = value.shape[stack.swept.along("position")] if cell.position is not None else 0
    return value[stack.swept.index(cell, length)]
