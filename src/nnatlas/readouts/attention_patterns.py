"""Attention patterns: what each head of each layer attends to, under any attention implementation.

Only the blocks that are asked about go step by step, so that their weights exist; the rest of the forward is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError, Unavailable
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.model.asked import layers_of, within
from nnatlas.model.prompts import Prompts

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


@dataclass(frozen=True, repr=False)
class AttentionPatterns(Shown):
    """Patterns by layer: each `batch num_heads query key`, on the CPU, in float32; made by `attention_patterns`.

    A layer without attention is not there.  Where patterns were averaged over heads, `averaged` is true and the axis of
    heads has one entry.  Rows of a pattern sum to 1, or to less where a sink takes a share.
    """

    patterns: Mapping[int, Tensor]
    prompts: Prompts
    averaged: bool

    def __getitem__(self, layer: int) -> Tensor:
        """The pattern of one layer, `batch num_heads query key`."""
        if layer not in self.patterns:
            raise InputError(f"no pattern of layer {layer}; there are {', '.join(map(str, self.patterns))}")
        return self.patterns[layer]

    def grid(self, row: int | None = None) -> Grid | Pages:
        """A page for each head, `layer.head`, of one prompt; of the first, or of all if there are several and `row` is None."""
        rows = range(len(self.prompts)) if row is None else [within(row, len(self.prompts), "row", "", InputError)]
        sheets = {
            (f"{at}: {name}" if len(rows) > 1 else name): sheet
            for at in rows
            for name, sheet in self._sheets(at).items()
        }
        kind = "layer" if self.averaged else "head"
        return Pages(f"prompt and {kind}" if len(rows) > 1 else kind, sheets, title="attention patterns")

    def _sheets(self, row: int) -> dict[str, Grid]:
        sheets = {}
        for layer, pattern in self.patterns.items():
            rows, queries = self._axis(row, "query", pattern.shape[2])
            columns, keys = self._axis(row, "key", pattern.shape[3])
            for head, weights in enumerate(pattern[row]):
                name = str(layer) if self.averaged else f"{layer}.{head}"
                shown = weights[queries][:, keys]
                sheets[name] = Grid(shown, rows, columns, units="attention", limits=(0, 1))
        return sheets

    def _axis(self, row: int, name: str, size: int) -> tuple[Axis, list[int]]:
        """The real positions of a prompt along an axis; numbers, where the axis is not of the prompt's positions alone."""
        if size == self.prompts.mask.shape[1]:
            return self.prompts.axis(row, name), self.prompts.real(row)
        return Axis(name, range(size)), list(range(size))


def attention_patterns(
    model: StandardizedTransformer,
    prompt: Any,
    layers: Iterable[int] | int | None = None,
    *,
    average: bool = False,
    **keywords: Any,
) -> AttentionPatterns:
    """Read the attention patterns of some layers, by default of all.

    Args:
        model: any model that `nnatlas.load` made.
        prompt: one prompt or several, in every form that `model.trace` takes, with its keywords.
        layers: the numbers of the layers, negative ones counted from the last.
        average: whether to average over the heads of a layer.

    Raises:
        Unavailable: none of these layers has a pattern, with the reason.

    Example:
        >>> found = attention_patterns(model, "The cat sat because the cat", layers=[5])
        >>> found[5].shape  # batch num_heads query key
        torch.Size([1, 9, 6, 6])
        >>> found.html("patterns.html")
    """
    chosen = sorted(set(layers_of(model, layers)))
    found: dict[int, Tensor] = {}
    missing: list[Unavailable] = []
    with torch.no_grad(), model.trace(prompt, **keywords) as run:
        prompts = Prompts.in_run(model)
        for layer in chosen:
            try:
                pattern = model.layers[layer].self_attn.attention_probabilities.float().cpu()
                found[layer] = pattern.mean(1, keepdim=True) if average else pattern.clone()
            except Unavailable as why:
                missing.append(why)
        run.stop()
    if not found:
        raise missing[0]
    return AttentionPatterns(found, prompts, average)
