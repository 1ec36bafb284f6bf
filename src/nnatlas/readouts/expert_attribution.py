"""Direct attribution inside mixtures: what each expert, and each neuron of it, writes towards a token.

An expert adds, for a token it was chosen for, its neurons through its own down projection, times the router's weight.  What
stands behind that (a factor of the family, a norm whose scale is held) is linear, so every neuron has a share; the shares
of all experts sum to the mixture's part less that of shared experts and of biases.  That this is all there is to it is
proven on the values at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from nnatlas.errors import Unavailable
from nnatlas.model.held import held_norm, tolerance
from nnatlas.model.positions import real_positions
from nnatlas.model.prompts import read

if TYPE_CHECKING:
    from nnatlas.bind.tree import Host
    from nnatlas.model import StandardizedTransformer
    from nnatlas.model.stream import Part

READ = ("expert_neurons", "expert_indices", "expert_weights", "routed_output", "shared_expert_output")


class Work(NamedTuple):
    """One expert at one row's position: its neurons `[intermediate_size]`, the rows `[intermediate_size, hidden_size]` of its
    down projection that they are multiplied by, and the router's weight."""

    row: int
    expert: int
    neurons: Tensor
    wide: Tensor
    weight: float


class Mixtures:
    """What one forward's mixtures computed at one position of each row, by block."""

    def __init__(self, model: StandardizedTransformer, prompt: Any, position: int, keywords: dict[str, Any]) -> None:
        rows = model.support().rows
        names = [f"layers.*.mlp.{name}" for name in READ if not rows[f"mlp.{name}"].nowhere]
        if len(names) < len(READ) - 1:
            self.found: dict[str, Any] = {}
            return
        found, prompts = read(model, prompt, names[1:] + names[:1], **keywords)
        self.found, self.at = found, real_positions(prompts.mask, position)

    def shares(self, block: Host, part: Part) -> Tensor:
        """The share of every neuron of every expert in a mixture's part, `[batch, num_experts, intermediate_size]`.

        Raises:
            Unavailable: this block's MLP is no mixture whose experts are told apart, or adds something else besides.
        """
        mine = {name: self.found.get(f"layers.{block.index}.mlp.{name}") for name in READ}
        down, own = _down(block), mine["expert_neurons"]
        if down is None or own is None or mine["routed_output"] is None:
            raise Unavailable(f"{block.name}: its MLP is no mixture of experts whose neurons are told apart")
        rows = torch.arange(len(self.at))
        here = {name: value[rows, self.at] for name, value in mine.items() if isinstance(value, Tensor)}
        works = list(self._works(own, here, down, bool(getattr(_experts(block), "is_transposed", False))))
        shares = torch.zeros(len(rows), len(down), max(len(one.neurons) for one in works), dtype=torch.float64)
        routed = torch.zeros_like(here["routed_output"], dtype=torch.float64)
        for one in works:
            routed[one.row] += one.weight * ((one.neurons @ one.wide).double() + _bias(block, one.expert))
        along = _along(block, part, here, routed)
        for one in works:
            read = one.wide.double() @ along[one.row]
            shares[one.row, one.expert] = (one.weight * one.neurons.double() * read).cpu()
        return shares

    def _works(self, own: Any, here: dict[str, Tensor], down: Tensor, transposed: bool) -> Iterator[Work]:
        """What each expert does at each row's position, of those chosen there."""
        for expert in here["expert_indices"].unique().tolist():
            neurons, positions = own(expert)
            square = down.shape[1] == down.shape[2]  # such a one tells only by the module's own word
            rows_are_neurons = transposed or (not square and down.shape[1] == neurons.shape[1])
            wide = down[expert] if rows_are_neurons else down[expert].T
            weights = (here["expert_weights"] * (here["expert_indices"] == expert)).sum(-1)
            for at, (row, place) in enumerate(positions.tolist()):
                if place == int(self.at[row]):
                    yield Work(row, expert, neurons[at].detach(), wide.detach(), float(weights[row].detach()))


def _experts(block: Host) -> Any:
    """The module of a block's experts, or None."""
    found = block.role("experts")
    return found[0] if isinstance(found, tuple) else None


def _down(block: Host) -> Tensor | None:
    """The down projections of all experts of a block, if they are one tensor."""
    down = getattr(_experts(block), "down_proj", None)
    return down if isinstance(down, Tensor) and down.ndim == 3 else None


def _bias(block: Host, expert: int) -> Tensor | float:
    """What an expert's down projection adds by itself."""
    bias = getattr(_experts(block), "down_proj_bias", None)
    return 0.0 if bias is None else bias[expert].detach().double()


def _along(block: Host, part: Part, here: dict[str, Tensor], routed: Tensor) -> Tensor:
    """What a vector written by experts is read along, `[batch, hidden_size]`: factors and a held norm included."""
    whole = here["routed_output"] + here.get("shared_expert_output", torch.zeros(()))
    norm = block.role("mlp_post_norm")
    asked = whole.detach().requires_grad_()
    with torch.enable_grad():
        added = held_norm(norm[0], asked.detach()[:, None])(asked[:, None])[:, 0] if isinstance(norm, tuple) else asked
        factor = _factor(
            block, added.detach(), part.tensor, "the mixture adds something else than its experts' outputs"
        )
        share = (factor * added.double() * part.direction.to(added.device)).sum()
    (slope,) = torch.autograd.grad(share, asked)
    biased = "its experts' outputs are not their neurons through the down projections"
    return slope.double() * _factor(block, routed, here["routed_output"], biased)


def _factor(block: Host, made: Tensor, real: Tensor, otherwise: str) -> Tensor:
    """The constant that takes one tensor to another."""
    made, real = made.double(), real.double().to(made.device)
    constant = (made * real).sum() / made.square().sum()
    if not (constant * made - real).norm() <= tolerance(torch.float32) * real.norm():
        raise Unavailable(f"{block.name}: {otherwise}")
    return constant
