"""A situation: one pair of prompts as the two runs between which patches lie, and what every way of sweeping needs.

The source run lends its values; the base run is the one that is patched.  In the base run keys and values are recorded,
and a few more rows have a cell patched each (the probes), so that quicker ways can be held against plain forwards.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.patching.cells import Cell, Swept, end_of, node
from nnatlas.patching.packing import Packing

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

ENTRY = "layers.0.layer_input"
PROBES = (0.34, 0.71)
"""How far along the list of cells the probes lie."""


class Source:
    """What patches are taken from: a row of the value in every block that has it, and the logits at the last position."""

    def __init__(self, model: StandardizedTransformer, ids: Tensor, swept: Swept) -> None:
        self.ids = ids
        with torch.no_grad():
            found = dict(model.collect(ids[None], [*swept.patterns, "logits"]))
        self.logits = found.pop("logits")[0, -1].float()
        names: dict[int, str] = {}
        for name in found:
            names.setdefault(int(name.split(".")[1]), name)
        self.names = dict(sorted(names.items()))
        self.values = {layer: found[name][0] for layer, name in self.names.items()}


class Situation:
    """One pair and one value; `ids` are the base prompt's, `[seq]`, `same` the positions in front that both share."""

    def __init__(self, model: StandardizedTransformer, swept: Swept, ids: Tensor, source: Source, same: int) -> None:
        self.model, self.swept, self.ids, self.source, self.same = model, swept, ids, source, same
        self.values: dict[int, Tensor] = {}
        self.cache: Any = None
        self.no_cache = ""
        able = [cell for cell in swept.cells(source.values) if cell.position is None or cell.position >= same]
        probes = [able[int(share * len(able))] for share in PROBES] if able else []
        logits = self._recorded(probes)
        self.logits, self.probed = logits[0], dict(zip(probes, logits[1:], strict=True))

    @property
    def length(self) -> int:
        return len(self.ids)

    def _recorded(self, probes: list[Cell]) -> Tensor:
        """Run the base prompt with its keys and values recorded; without, where the model does not take the recorder."""
        from transformers import DynamicCache

        recurrent = next((at for at, block in enumerate(self.model.layers) if hasattr(block, "linear_attn")), None)
        if recurrent is not None:
            self.no_cache = f"block {recurrent} remembers earlier positions by a state, not by keys and values"
            return self.forward(probes, keep=self.values)
        cache = DynamicCache()  # made without a config, it keeps all positions in every block, sliding ones too
        try:
            logits = self.forward(probes, cache=cache, keep=self.values)
        except Exception as why:  # noqa: BLE001  whatever it is, the plain way decides
            self.no_cache = f"it does not run over a plain key/value cache ({shortly(why)})"
            return self.forward(probes, keep=self.values)
        self.cache, self.no_cache = cache, self._gaps(cache)
        return logits

    def _gaps(self, cache: Any) -> str:
        """Why the recorded keys and values do not say all that a block remembers of earlier positions; empty if they do."""
        blocks = range(self.model.num_layers)
        kept = [layer.keys for layer in cache.layers]
        if len(kept) != len(blocks):
            return f"{len(kept)} of its {len(blocks)} blocks keep keys and values"
        for block, keys in zip(blocks, kept, strict=True):
            if not isinstance(keys, Tensor) or keys.ndim != 4 or keys.shape[-2] != self.length:
                held = list(keys.shape) if isinstance(keys, Tensor) else "nothing"
                return f"block {block} keeps {held}, not keys of {self.length} positions"
        return ""

    @property
    def packable(self) -> bool:
        """Whether what MLPs read can be chosen."""
        served = self.model.support().rows["block.mlp_input"]
        return self.swept.before_mlp and served.everywhere

    # -- which cells are worth a patch -----------------------------------------------------------------------------

    def part(self, values: Mapping[int, Tensor], cell: Cell) -> Tensor:
        """What a cell names, of one row of the value."""
        return values[cell.layer][self.swept.index(cell, self.length)]

    def cells(self) -> list[Cell]:
        """Cells whose patch can change anything: where the two runs hold different numbers.

        In front of the first differing token they would differ by rounding alone if attention is causal.
        """
        same = self.same if not self.acausal else 0
        return [
            cell
            for cell in self.swept.cells(self.source.values)
            if (cell.position is None or cell.position >= same)
            and not torch.equal(self.part(self.source.values, cell), self.part(self.values, cell))
        ]

    @cached_property
    def acausal(self) -> str:
        """Why later tokens seem to reach earlier positions; empty where they do not."""
        along = self.swept.along("position")
        for layer, own in self.values.items() if along >= 0 else ():
            both = (values.narrow(along, 0, self.same) for values in (own, self.source.values[layer]))
            gap = farthest(*both)
            if gap > tolerance(own):
                return f"positions before the first differing token differ (by {gap:.2g} in block {layer})"
        return ""

    # -- forwards --------------------------------------------------------------------------------------------------

    def forward(
        self,
        cells: Sequence[Cell],
        start: int = 0,
        cache: Any = None,
        growing: bool = False,
        packed: bool = False,
        keep: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """Logits `[1 + cells, vocab_size]` at the last position, float32: of the base run, and with each cell patched.

        `start` leaves out the positions before, which `cache` must hold.  With `growing`, rows join where their cell is
        patched; with `packed`, MLPs run on what they change only.  `keep` receives the base run's own values.
        """
        here: dict[int, dict[int, Cell]] = {}
        for row, cell in enumerate(cells, 1):
            here.setdefault(cell.layer, {})[row] = cell
        rows = 1 if growing else 1 + len(cells)
        packing = Packing(start, self.length - start)
        with torch.no_grad(), self.model.trace(**self.call(rows, start, cache), growing=growing) as run:
            for layer, block in enumerate(run.layers):
                if packed and self.swept.leaving:
                    packing.run_mlp(block, last=layer == len(run.layers) - 1)
                self._patch_block(run, layer, here.get(layer, {}), growing, keep)
                packing.join(here.get(layer, {}).values())
                if packed and not self.swept.leaving:
                    packing.run_mlp(block, last=layer == len(run.layers) - 1)
            _contiguous_head(run)
            return run.logits[:, -1].float()

    def _patch_block(
        self, run: Any, layer: int, cells: Mapping[int, Cell], growing: bool, keep: dict[int, Tensor] | None
    ) -> None:
        """Let the rows of some cells join, and patch them."""
        if cells and growing:
            self._grow(run.layers[layer], len(cells))
        if cells or (keep is not None and layer in self.source.names):
            value = getattr(*node(run, self.source.names[layer]))
            if keep is not None:
                keep[layer] = value[0].clone()
            for row, cell in cells.items():
                self.patch(value[row], cell)

    def _grow(self, block: Any, count: int) -> None:
        """Let copies of the unpatched row join, as late as the value allows."""
        if self.swept.leaving:
            block.layer_output = _joined(block.layer_output, count)
        else:
            block.layer_input = _joined(block.layer_input, count)

    def patch(self, row: Tensor, cell: Cell) -> None:
        """Write the source run's numbers into one row of the value."""
        target = row[self.swept.index(cell, self.length)]
        target.copy_(end_of(self.part(self.source.values, cell), target))

    def call(self, rows: int, start: int = 0, cache: Any = None) -> dict[str, Any]:
        """What `trace` is called with: the base prompt in so many rows, from a position on."""
        takes = inspect.signature(inspect.unwrap(type(self.model._module).forward)).parameters
        inputs = {"input_ids": self.ids[None, start:].expand(rows, -1)}
        if "attention_mask" in takes:
            inputs["attention_mask"] = torch.ones(rows, self.length, dtype=torch.long)
        call: dict[str, Any] = {"inputs": inputs, "use_cache": cache is not None}
        if cache is not None:
            call["cache" if "cache" in takes else "past_key_values"] = cache
        if start and "position_ids" in takes:
            call["position_ids"] = torch.arange(start, self.length)[None]
        if "logits_to_keep" in takes:
            call["logits_to_keep"] = 1
        return call

    def entries(self) -> list[Tensor]:
        """What enters the first block, of the base run and of the source run, `[1, seq, hidden_size]`."""
        with torch.no_grad():
            return [self.model.collect(ids[None], ENTRY)[ENTRY] for ids in (self.ids, self.source.ids)]


def _contiguous_head(run: Any) -> None:
    """Lay the last positions side by side in memory: many rows of one position, cut out of more, multiply slowly."""
    head = getattr(run, "lm_head", None)
    if head is not None:
        head.input = head.input.contiguous()


def _joined(stream: Tensor, count: int) -> Tensor:
    return torch.cat([stream, stream[:1].expand(count, *stream.shape[1:])])


def shortly(error: Exception) -> str:
    """An error in half a line."""
    said = f"{type(error).__name__}: {error}".split("\n")[0]
    return said if len(said) <= 100 else f"{said[:100].rstrip()} ..."


def farthest(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors."""
    return float((one.float() - other.float()).abs().max()) if one.numel() else 0.0


def tolerance(like: Tensor) -> float:
    """What two ways of computing one tensor may differ by: 1e-4, or a few roundings where the dtype is coarser."""
    scale = max(1.0, float(like.float().abs().max()))
    return max(1e-4, 4 * torch.finfo(like.dtype).eps) * scale
