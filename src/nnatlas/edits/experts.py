"""Ablating experts of mixtures, by their routing: under any experts implementation, at the cost of the routing alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnatlas.edits.edit import ByLayer, Edit, by_layer, layer_numbers, listed_by_layer, pairs_of
from nnatlas.edits.where import Positions, Where
from nnatlas.errors import InputError, LayoutError

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer

HOW = {
    "zero": "their weight is zero and the other experts' stays as it is",
    "renormalize": "their weight is shared out among the token's other experts, in proportion",
    "reroute": "their router logits are minus infinity, so that tokens go to the next best",
}


@dataclass(eq=False, repr=False)
class ExpertAblation(Edit):
    """Experts that no token is given to any more.  Made by `ablate_experts`."""

    experts: dict[int, list[int]]
    how: str
    where: Where

    def parts(self) -> list[tuple[str, Function]]:
        return [part for layer, own in self.experts.items() for part in self._parts_of(f"layers.{layer}.mlp", own)]

    def _parts_of(self, mlp: str, own: list[int]) -> list[tuple[str, Function]]:
        if self.how == "reroute":
            return [(f"{mlp}.router_logits", partial(self._reroute, own))]
        return [
            (f"{mlp}.expert_indices", partial(self._remember, mlp)),
            (f"{mlp}.expert_weights", partial(self._weigh, mlp, own)),
        ]

    def _reroute(self, own: list[int], logits: Tensor, call: ModelCall) -> Tensor:
        """Router logits `[batch, seq, num_experts]` without some."""
        without = logits.index_fill(-1, torch.tensor(own, device=logits.device), -torch.inf)
        return self.where.put(call, without, logits)

    def _remember(self, mlp: str, indices: Tensor, call: ModelCall) -> None:
        call.notes[self, mlp] = indices

    def _weigh(self, mlp: str, own: list[int], weights: Tensor, call: ModelCall) -> Tensor:
        """Weights `[batch, seq, top_k]` with nothing for some experts."""
        gone = torch.isin(call.notes[self, mlp], torch.tensor(own, device=weights.device))
        kept = weights.masked_fill(gone, 0)
        if self.how == "renormalize":
            left, whole = kept.sum(-1, keepdim=True), weights.sum(-1, keepdim=True)
            kept = torch.where(gone.any(-1, keepdim=True) & (left != 0), kept * (whole / left), kept)
        return self.where.put(call, kept, weights)

    def describe(self) -> str:
        return f"takes out {listed_by_layer(self.experts, 'expert')} ({HOW[self.how]}), {self.where.words}"


def ablate_experts(
    model: StandardizedTransformer,
    experts: ByLayer,
    how: str = "zero",
    positions: Positions = None,
    on: str = "both",
) -> ExpertAblation:
    """Take experts out of mixtures, while the `with` lasts.

    `experts` is `{layer: [experts]}` or pairs of `(layer, expert)`.  `how` is

    - "zero": a token keeps its choice, but what the expert says counts nothing (the output shrinks);
    - "renormalize": likewise, with the expert's weight shared out among the token's other experts, in proportion (where
      all its experts are taken out, nothing is left to share, and the weights are zero);
    - "reroute": the router never chooses it, as if it did not exist, and the token goes to the next best (where experts
      are chosen by groups and none other is left in one, it may still fill a place, with a weight of zero).

    Raises:
        Unavailable: the layer's MLP is dense, or its family does not serve the routing.
        LayoutError: no such expert, or "reroute" would leave fewer experts than a token takes.

    >>> with edits.ablate_experts(model, {1: [0, 3]}, how="reroute"):
    ...     logits = model(ids).logits
    """
    if how not in HOW:
        raise InputError(f"how={how!r}: there are {', '.join(HOW)}")
    for layer in layer_numbers(model, [at for at, _ in pairs_of(experts, "expert")]):
        model.editing(f"layers.{layer}.mlp.expert_weights", lambda value, call: None)  # a dense layer says so here
    chosen = by_layer(model, experts, "mlp", "num_experts", "expert")
    for layer, own in chosen.items():
        mlp = model.layers[layer].mlp
        if how == "reroute" and mlp.num_experts - len(own) < mlp.top_k:
            raise LayoutError(
                f"layer {layer}: without {len(own)} of {mlp.num_experts} experts fewer are left than the {mlp.top_k} that a "
                'token takes; use how="zero"'
            )
    return ExpertAblation(model, chosen, how, Where(positions, on))
