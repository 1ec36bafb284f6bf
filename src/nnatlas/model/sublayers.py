"""Within a sublayer: what each head, or each neuron, has in what the attention, or the MLP, adds to the stream.

What is added is the projection of heads (or neurons), perhaps through a norm behind it whose scale is held at its value,
times a constant of the family.  That this is all of it is proven on the values at hand; where it is not, the reason says so.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nnatlas.bind.tree import Host
from nnatlas.errors import Unavailable
from nnatlas.model.held import held_norm, tolerance
from nnatlas.model.stream import Part, Stream


class Within(NamedTuple):
    """Where the parts of a sublayer are read, and the roles that take them to the stream."""

    kind: str
    host: str
    value: str
    projection: str
    post_norm: str


WITHIN = {
    "head": Within("attention", "self_attn", "attention_premix", "o_proj", "attention_post_norm"),
    "neuron": Within("mlp", "mlp", "mlp_neurons", "down_proj", "mlp_post_norm"),
}


def shares_within(block: Host, stream: Stream, part: Part, by: str) -> Tensor:
    """The share of every head, `[batch, num_heads]`, or neuron, `[batch, intermediate_size]`, in a sublayer's part.

    They sum to the part's amount less what its biases bring.

    Raises:
        Unavailable: this block does not serve what would be told apart, or its sublayer adds something else besides.
    """
    within = WITHIN[by]
    host = block.parts.get(within.host)
    if host is None or (reason := host.absence(within.value)) is not None:
        raise _lacking(block, f"no {within.host}" if host is None else reason)
    inside = stream.value(host.point(within.value))
    asked = inside.flatten(1)[:, None].detach().requires_grad_()  # as a sequence of one token
    with torch.enable_grad():
        added = _added(block, within, asked)[:, 0].double().to(part.direction.device)
        share = (_agreeing(block, within, added, part.tensor) * added * part.direction).sum()
    (slope,) = torch.autograd.grad(share, asked)
    shares = (slope.double() * asked.detach())[:, 0].unflatten(1, inside.shape[1:])
    return shares.flatten(2).sum(-1) if shares.ndim > 2 else shares


def _added(block: Host, within: Within, inside: Tensor) -> Tensor:
    """What the projection, and a norm behind it with its scale held, make of the parts."""
    projection, norm = block.role(within.projection), block.role(within.post_norm)
    if not isinstance(projection, tuple):
        raise _lacking(block, f"no module projects the {_parts(within)} to the stream")
    try:
        projected = projection[0](inside)
    except (TypeError, ValueError, RuntimeError) as wrong:
        raise _lacking(block, f"{within.projection} does not project one token alone: {wrong}") from None
    return held_norm(norm[0], projected.detach())(projected) if isinstance(norm, tuple) else projected


def _agreeing(block: Host, within: Within, added: Tensor, real: Tensor) -> Tensor:
    """The family's constant on what the sublayer adds, which must take the one to the other."""
    made = added.detach()
    if made.shape == real.shape:
        constant = (made * real).sum() / made.square().sum()
        if (constant * made - real).norm() <= tolerance(real.dtype) * real.norm():
            return constant
    raise _lacking(
        block, f"{within.kind} adds something else than what {within.projection} makes of its {_parts(within)}"
    )


def _lacking(block: Host, reason: str | None) -> Unavailable:
    return Unavailable(f"{block.name}: {reason}", reason or "")


def _parts(within: Within) -> str:
    return "heads" if within.kind == "attention" else "neurons"
