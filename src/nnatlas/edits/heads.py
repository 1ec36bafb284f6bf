"""Ablating attention heads, where the output projection receives them: after any gate and sub-norm, before they are mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnatlas.edits.ablation import Ablation, ablate
from nnatlas.edits.edit import ByLayer, by_layer, listed_by_layer
from nnatlas.edits.where import Positions

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def ablate_heads(
    model: StandardizedTransformer,
    heads: ByLayer,
    how: str = "zero",
    using: Any = None,
    positions: Positions = None,
    on: str = "both",
    seed: int = 0,
) -> Ablation:
    """Replace heads' parts of `attention_premix`, so that what they add is zero, its mean, or that of another prompt.

    `heads` is `{layer: [heads]}` or pairs of `(layer, head)`.  The rest as in `ablate`.

    >>> with edits.ablate_heads(model, [(9, 1), (10, 4)]):
    ...     logits = model(ids).logits
    """
    chosen = by_layer(model, heads, "self_attn", "num_heads", "head")
    targets = {f"layers.{layer}.self_attn.attention_premix": own for layer, own in chosen.items()}
    return ablate(model, targets, how, using, positions, on, seed, listed_by_layer(chosen, "head"))
