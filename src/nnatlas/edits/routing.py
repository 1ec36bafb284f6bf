"""Forced routing: which experts a token goes to, said by you instead of the router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.edits.edit import Edit, by_layer
from nnatlas.edits.where import Positions, Where
from nnatlas.errors import InputError, LayoutError

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer


@dataclass(eq=False, repr=False)
class ForcedRouting(Edit):
    """Experts, and perhaps weights, that stand for the router's.  Made by `force_routing`.

    `experts` has by layer `[top_k]` for all tokens, or `[batch, seq, top_k]` for the tokens of the prompt.
    """

    experts: dict[int, Tensor]
    weights: Tensor | None
    where: Where

    def parts(self) -> list[tuple[str, Function]]:
        return [part for layer in self.experts for part in self._parts_of(layer)]

    def _parts_of(self, layer: int) -> list[tuple[str, Function]]:
        mlp = f"layers.{layer}.mlp"
        choice: list[tuple[str, Function]] = [(f"{mlp}.expert_indices", partial(self._put, self.experts[layer]))]
        return (
            choice if self.weights is None else [*choice, (f"{mlp}.expert_weights", partial(self._put, self.weights))]
        )

    def _put(self, forced: Tensor, given: Tensor, call: ModelCall) -> Tensor:
        """`forced` instead of what the router gave, `[batch, seq, top_k]`."""
        if forced.ndim == 3 and call.past:
            return given
        if forced.ndim == 3 and forced.shape != given.shape:
            raise LayoutError(
                f"routing for {list(forced.shape)} (batch seq top_k), but this call's is {list(given.shape)}"
            )
        return self.where.put(call, forced.to(given).expand_as(given), given)

    def describe(self) -> str:
        fixed = "; ".join(
            f"layer {layer}: "
            + (f"experts {own.tolist()}" if own.ndim == 1 else f"experts for {list(own.shape[:2])} tokens")
            for layer, own in self.experts.items()
        )
        weights = "the router's weights" if self.weights is None else f"weights {self.weights.tolist()}"
        return f"sends tokens to {fixed}, with {weights}, {self.where.words}"


def force_routing(
    model: StandardizedTransformer,
    experts: Mapping[int, Sequence[int] | Tensor],
    weights: Sequence[float] | None = None,
    positions: Positions = None,
    on: str = "both",
) -> ForcedRouting:
    """Send tokens to the experts you say, while the `with` lasts.

    `experts` has by layer the `top_k` experts of every token, or a tensor `[batch, seq, top_k]` with those of each token
    of the prompt, as `expert_indices` read in another run.  `weights` are `top_k` numbers for every token; without them the
    router's own weights stay, the largest for the first expert where the family sorts them.

    Raises:
        Unavailable: the layer's MLP is dense, or its family does not serve the routing.
        LayoutError: not `top_k` experts, one that does not exist, or one twice.

    >>> with edits.force_routing(model, {1: [0, 3]}, weights=[0.5, 0.5]):
    ...     logits = model(ids).logits
    """
    if not isinstance(experts, Mapping):
        raise InputError(f"{experts!r}: routing is forced by layer, force_routing(model, {{layer: experts}})")
    if not experts:
        raise InputError("no layer is named: force_routing(model, {layer: experts})")
    checked = {
        layer: _checked(model, layer, _tensor(own, f"experts for layer {layer}")) for layer, own in experts.items()
    }
    shared = None if weights is None else _tensor(weights, "weights").float()
    for layer in checked:
        if shared is not None and len(shared) != model.layers[layer].mlp.top_k:
            raise LayoutError(
                f"{len(shared)} weights: in layer {layer} a token takes {model.layers[layer].mlp.top_k} experts"
            )
    return ForcedRouting(model, checked, shared, Where(positions, on))


def _tensor(numbers: Any, what: str) -> Tensor:
    try:
        return torch.as_tensor(numbers)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{what}: {numbers!r} are no numbers") from None


def _checked(model: StandardizedTransformer, layer: int, own: Tensor) -> Tensor:
    """The experts of one layer, if they can be a token's."""
    model.editing(f"layers.{layer}.mlp.expert_indices", lambda value, call: None)  # a dense layer says so here
    by_layer(model, {layer: own.flatten().unique().tolist()}, "mlp", "num_experts", "expert")
    top_k = model.layers[layer].mlp.top_k
    if own.ndim not in (1, 3) or own.shape[-1] != top_k:
        raise LayoutError(f"experts {list(own.shape)} for layer {layer}: give [{top_k}], or [batch, seq, {top_k}]")
    if any(len(set(token)) < top_k for token in own.reshape(-1, top_k).tolist()):
        raise LayoutError(
            f"layer {layer}: an expert is named twice for one token; a token takes {top_k} different ones"
        )
    return own
