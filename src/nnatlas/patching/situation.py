"""A situation: pairs of prompts as the two runs between which patches lie, and what every way of sweeping needs.

The source run lends its values; the base run is the one that is patched.  In the base run keys and values are recorded,
and a few more rows have a cell patched each (the probes), so that quicker ways can be held against plain forwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nnatlas.patching.cells import Patch
from nnatlas.patching.forwards import Forward, part
from nnatlas.patching.stack import Stack, farthest, tolerance

PROBES = (0.34, 0.71)
"""How far along the list of a pair's cells its probes lie."""


class Run(NamedTuple):
    """Prompts as they are: `ids` `[pairs, seq]`, `logits` `[pairs, vocab_size]` at the last position, and the value in each
    block that has it, `[pairs, ...]`."""

    ids: Tensor
    logits: Tensor
    values: dict[int, Tensor]


class Situation:
    """Pairs of one length and one value; `same` counts the positions in front that both prompts of a pair share."""

    def __init__(self, stack: Stack, base: Tensor, source: Tensor, same: Sequence[int]) -> None:
        self.stack, self.same = stack, list(same)
        found: dict[int, Tensor] = {}
        self.source = Run(source, Forward(stack, source, pairs=range(len(source))).run(found), found)
        self.cache: Any = None
        self.no_cache = ""
        probes = sorted(self._probes(), key=lambda patch: patch.cell.layer)
        values: dict[int, Tensor] = {}
        logits = self._recorded(base, probes, values)
        self.base = Run(base, logits[: len(base)], values)
        self.probed = dict(zip(probes, logits[len(base) :], strict=True))

    @property
    def pairs(self) -> int:
        return len(self.source.ids)

    @property
    def length(self) -> int:
        return self.source.ids.shape[1]

    def _probes(self) -> Iterator[Patch]:
        for pair, same in enumerate(self.same):
            able = [patch for patch in self._all(pair) if patch.cell.position is None or patch.cell.position >= same]
            yield from (able[int(share * len(able))] for share in PROBES if able)

    def _all(self, pair: int) -> Iterator[Patch]:
        """Every cell of a pair."""
        rows = {layer: value[pair] for layer, value in self.source.values.items()}
        return (Patch(pair, cell) for cell in self.stack.swept.cells(rows))

    def _recorded(self, base: Tensor, probes: list[Patch], values: dict[int, Tensor]) -> Tensor:
        """Run the base prompts with their keys and values recorded; without, where the model does not take the recorder."""
        from transformers import DynamicCache

        every = range(len(base))
        forward = lambda recorder: Forward(self.stack, base, probes, self.source.values, recorder=recorder, pairs=every)
        run = lambda recorder: forward(recorder).run(values)
        blocks = self.stack.model.layers
        recurrent = next((at for at, block in enumerate(blocks) if hasattr(block, "linear_attn")), None)
        if recurrent is not None:
            self.no_cache = f"block {recurrent} remembers earlier positions by a state, not by keys and values"
            return run(None)
        cache = DynamicCache()  # made without a config, it keeps all positions in every block, sliding ones too
        try:
            logits = run(cache)
        except Exception as why:  # noqa: BLE001  whatever it is, the plain way decides
            self.no_cache = f"it does not run over a plain key/value cache ({shortly(why)})"
            return run(None)
        self.cache, self.no_cache = cache, self._gaps(cache)
        return logits

    def _gaps(self, cache: Any) -> str:
        """Why the recorded keys and values do not say all that a block remembers of earlier positions; empty if they do."""
        blocks = range(self.stack.model.num_layers)
        kept = [layer.keys for layer in cache.layers]
        if len(kept) != len(blocks):
            return f"{len(kept)} of its {len(blocks)} blocks keep keys and values"
        for block, keys in zip(blocks, kept, strict=True):
            if not isinstance(keys, Tensor) or keys.ndim != 4 or keys.shape[-2] != self.length:
                held = list(keys.shape) if isinstance(keys, Tensor) else "nothing"
                return f"block {block} keeps {held}, not keys of {self.length} positions"
        return ""

    # -- which cells are worth a patch -----------------------------------------------------------------------------

    def part(self, values: Mapping[int, Tensor], patch: Patch) -> Tensor:
        """What a patch's cell names, of its pair's row of the value."""
        return part(self.stack, values, patch)

    def patches(self) -> list[Patch]:
        """Cells whose patch can change anything: where the two runs hold different numbers.

        In front of the first differing token they would differ by rounding alone if attention is causal.
        """
        return [patch for pair in range(self.pairs) for patch in self._all(pair) if self._differs(patch)]

    def _differs(self, patch: Patch) -> bool:
        same = 0 if self.acausal else self.same[patch.pair]
        if patch.cell.position is not None and patch.cell.position < same:
            return False
        return not torch.equal(self.part(self.source.values, patch), self.part(self.base.values, patch))

    @cached_property
    def acausal(self) -> str:
        """Why later tokens seem to reach earlier positions; empty where they do not."""
        along = self.stack.swept.along("position")
        for layer, own in self.base.values.items() if along >= 0 else ():
            for pair, same in enumerate(self.same):
                both = (values[pair].narrow(along, 0, same) for values in (own, self.source.values[layer]))
                gap = farthest(*both)
                if gap > tolerance(own):
                    return f"positions before the first differing token differ (by {gap:.2g} in block {layer})"
        return ""


def shortly(error: Exception) -> str:
    """An error in half a line."""
    said = f"{type(error).__name__}: {error}".split("\n")[0]
    return said if len(said) <= 100 else f"{said[:100].rstrip()} ..."
