"""How shares of a logit look: layers by kinds or heads, and of neurons the strongest of every layer by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from nnatlas.grid import Axis, Grid, Pages
from nnatlas.readouts.logit_attribution import HELD

if TYPE_CHECKING:
    from nnatlas.readouts.logit_attribution import LogitAttribution

STRONGEST = 8
"""Neurons shown of every layer."""


def grid(shown: LogitAttribution) -> Grid | Pages:
    """One grid, or a page for each of several prompts."""
    sheets = [
        _neurons(shown, row) if shown.by.endswith("neuron") else _sheet(shown, row) for row in range(len(shown.total))
    ]
    if len(sheets) == 1:
        return sheets[0]
    return Pages("prompt", dict(zip(map(str, range(len(sheets))), sheets, strict=True)), "direct logit attribution")


def _sheet(shown: LogitAttribution, row: int) -> Grid:
    layers = Axis("layer", range(shown.values.shape[1]))
    columns = Axis("sublayer" if shown.by == "layer" else shown.by, shown.columns)
    return Grid(shown.values[row], layers, columns, title=shown.targets[row], units="logits", note=_note(shown, row))


def _neurons(shown: LogitAttribution, row: int) -> Grid:
    """Every layer's strongest neurons, with their numbers as text."""
    values = shown.values[row]
    best = values.abs().nan_to_num(nan=-1.0).topk(min(STRONGEST, values.shape[1])).indices
    chosen = values.gather(1, best)
    texts = [
        [
            f"{shown.columns[neuron]}: {share:+.2f}" if share == share else ""
            for neuron, share in zip(numbers, shares, strict=True)
        ]
        for numbers, shares in zip(best.tolist(), chosen.tolist(), strict=True)
    ]
    layers, ranks = Axis("layer", range(len(values))), Axis("rank", range(1, best.shape[1] + 1))
    note = f"a cell is a neuron and its share; {_note(shown, row)}"
    return Grid(chosen, layers, ranks, title=shown.targets[row], units="logits", text=texts, note=note)


def _note(shown: LogitAttribution, row: int) -> str:
    """What stands in no cell, and how it all sums."""
    outside = ", ".join(f"{name} {float(amount[row]):+.3f}" for name, amount in shown.rest.items())
    cells = float(torch.nan_to_num(shown.values[row]).sum())
    said = (
        f"cells {cells:+.3f}, {outside}; together {float(shown.sum[row]):.3f} of {float(shown.total[row]):.3f}; {HELD}"
    )
    reasons = "; ".join(f"not told apart: {why}" for why in dict.fromkeys(shown.missing.values()))
    return f"{said}; {reasons}" if reasons else said
