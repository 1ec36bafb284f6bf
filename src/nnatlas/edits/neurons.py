"""Ablating neurons of dense MLPs, where the down projection receives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnatlas.edits.ablation import Ablation, ablate
from nnatlas.edits.edit import ByLayer, by_layer, listed_by_layer
from nnatlas.edits.where import Positions

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def ablate_neurons(
    model: StandardizedTransformer,
    neurons: ByLayer,
    how: str = "zero",
    using: Any = None,
    positions: Positions = None,
    on: str = "both",
    seed: int = 0,
) -> Ablation:
    """Replace entries of `mlp_neurons`: act(gate)·up, or the activation itself where there is no gate.

    `neurons` is `{layer: [neurons]}` or pairs of `(layer, neuron)`.  A mixture of experts has none of its own
    (`Unavailable`): see `ablate_experts`.  The rest as in `ablate`.

    >>> with edits.ablate_neurons(model, {3: [17, 201]}, how="mean", using=prompts):
    ...     logits = model(ids).logits
    """
    chosen = by_layer(model, neurons, "mlp", "intermediate_size", "neuron")
    targets = {f"layers.{layer}.mlp.mlp_neurons": own for layer, own in chosen.items()}
    return ablate(model, targets, how, using, positions, on, seed, listed_by_layer(chosen, "neuron"))
