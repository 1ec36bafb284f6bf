"""Ablating what whole layers add to the residual stream, and what the stream holds at some positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnatlas.edits.ablation import Ablation, ablate
from nnatlas.edits.edit import layer_numbers, listed
from nnatlas.edits.where import Positions
from nnatlas.errors import InputError, Unavailable
from nnatlas.model.asked import Numbers

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

ATTENTIONS = ("self_attn.attention_output", "linear_attn.attention_output")
PARTS = {"attention": (ATTENTIONS,), "mlp": (("mlp.mlp_output",),), "both": (ATTENTIONS, ("mlp.mlp_output",))}


def ablate_layers(
    model: StandardizedTransformer,
    layers: Numbers,
    part: str = "both",
    how: str = "zero",
    using: Any = None,
    positions: Positions = None,
    on: str = "both",
    seed: int = 0,
) -> Ablation:
    """Replace what layers add to the stream: their `attention_output` (of any mixer), their `mlp_output`, or both.

    `part` is "attention", "mlp" or "both" (what the layer has of the two).  To pass a layer by altogether, whatever
    scales its sum, see `skip_layers`.  The rest as in `ablate`.

    >>> with edits.ablate_layers(model, [10, 11], part="mlp", how="mean", using=prompts):
    ...     logits = model(ids).logits
    """
    if part not in PARTS:
        raise InputError(f"part={part!r}: there are {', '.join(PARTS)}")
    numbers = layer_numbers(model, layers)
    found = [_present(model, layer, options, part) for layer in numbers for options in PARTS[part]]
    adds = "what is added" if part == "both" else f"what the {part} adds"
    what = f"{adds} in {listed(numbers, 'layer')}"
    return ablate(model, [name for name in found if name], how, using, positions, on, seed, what)


def _present(model: StandardizedTransformer, layer: int, options: tuple[str, ...], part: str) -> str | None:
    """The first of some values that a layer has; None where it has none and others are asked for too."""
    reason: Unavailable | None = None
    for option in options:
        name = f"layers.{layer}.{option}"
        try:
            model.editing(name, lambda value, call: None)
        except Unavailable as why:
            reason = reason or why
        else:
            return name
    if part != "both" and reason is not None:
        raise reason
    return None


def ablate_positions(
    model: StandardizedTransformer,
    positions: Positions,
    layers: Numbers = 0,
    how: str = "zero",
    using: Any = None,
    on: str = "both",
    seed: int = 0,
) -> Ablation:
    """Replace the whole residual stream at some positions, where it enters `layers` (by default the first).

    `positions` are counted among each row's real tokens, -1 the last.  The rest as in `ablate`.

    >>> with edits.ablate_positions(model, [1, 2], layers=5, how="resample", using=prompts, on="prompt"):
    ...     logits = model(ids).logits
    """
    numbers = layer_numbers(model, layers)
    what = f"the stream entering {listed(numbers, 'layer')}"
    return ablate(model, [f"layers.{layer}.layer_input" for layer in numbers], how, using, positions, on, seed, what)
