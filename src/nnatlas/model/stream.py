"""What makes up the residual stream, read off the row's identity: the stream that enters, and what every block adds.

The identity of a block is a sum, `layer_input + attention_output + mlp_output = layer_output`, each summand times what the
row says.  Followed from the last block to the first it writes the last stream as a sum of parts, and any linear function
of it as a sum over the same parts: `Part.amount(direction)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas import places
from nnatlas.bind.cells import point_at, scale_of
from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tree import Host
from nnatlas.errors import RowDoesNotFit, Unavailable
from nnatlas.model.collect import Gathering
from nnatlas.model.positions import real_positions
from nnatlas.model.prompts import CALL, Prompts, called_with
from nnatlas.places import Absent, Factor, Term

if TYPE_CHECKING:
    from nnatlas.model.transformer import StandardizedTransformer

ENTERING = "layer_input"
PARTS = ("self_attn", "linear_attn", "mlp")
WORDS = {"attention_output": "attention", "mlp_output": "mlp"}


def identity_of(block: Host) -> str | Absent:
    """The identity of a block: its last kind that states one, else the family's."""
    own = {kind.name: kind.identity for kind in block.owner.family.kinds if kind.identity is not None}
    stated = [own[name] for name in block.kinds if name in own]
    return stated[-1] if stated else block.owner.family.identity


@dataclass(frozen=True)
class Summand:
    """One summand of a block's identity, bound: where it is read, and what multiplies it."""

    kind: str
    host: Host
    point: Point | Computed
    factors: tuple[Factor, ...]

    def scaled(self, tensor: Tensor) -> Tensor:
        return _scaled(self.host, self.factors, tensor)


@dataclass(frozen=True)
class Part:
    """A part of the last stream at one position of each row.

    `tensor` `[batch, hidden_size]` is the value itself; `direction` `[batch, hidden_size]` what it is read along, so that
    its share of the whole is their product.
    """

    block: int | None
    kind: str
    tensor: Tensor
    direction: Tensor

    @property
    def amount(self) -> Tensor:
        """Its share, `[batch]`."""
        return (self.tensor.double() * self.direction).sum(-1)


@dataclass(frozen=True)
class Stream:
    """Everything that makes up the last stream at one position of each row, as one forward computed it."""

    blocks: tuple[Host, ...]
    prompts: Prompts
    final: Tensor
    logits: Tensor
    values: Mapping[str, Tensor]

    def value(self, point: Point | Computed) -> Tensor:
        """A gathered value at the chosen positions, `[batch, ...]`, on the device it was computed on."""
        return self.values[point.name]

    def _beside(self, point: Point | Computed) -> Tensor:
        """The same beside the last stream: a model may be spread over devices."""
        return self.value(point).to(self.final.device)

    def parts(self, direction: Tensor) -> list[Part]:
        """The last stream's parts, each with the direction it is read along; `direction` `[batch, hidden_size]` is the last's.

        What the row does not account for between two blocks (features that a wrapper adds to the stream) is a part too.
        """
        found: list[Part] = []
        above: Tensor | None = None
        for block in reversed(self.blocks):
            summands, leaving = _summands(block)
            if above is not None and not torch.equal(above, self._beside(block.point("layer_output"))):
                found.append(Part(block.index, "after", above - self._beside(block.point("layer_output")), direction))
            direction = direction / leaving.scaled(torch.ones_like(direction))
            found += [
                Part(block.index, one.kind, self._beside(one.point), one.scaled(direction))
                for one in summands
                if one.kind != ENTERING
            ]
            entering = next((one for one in summands if one.kind == ENTERING), None)
            if entering is None:
                return found  # what came before is not in the stream, or only within one of these parts
            above, direction = self._beside(entering.point), entering.scaled(direction)
        assert above is not None
        return [*found, Part(None, "start", above, direction)]


def read_stream(
    model: StandardizedTransformer, inputs: Any, position: int, also: Iterable[str], **keywords: Any
) -> Stream:
    """Run one forward and keep, at one position of each row, the stream's parts and the values of each block named in `also`.

    Raises:
        Unavailable: the family states no identity (with its reason), or its last stream is not what it reads out.
    """
    owner = model._owner
    if reason := owner.family.breaks.get("head", ""):
        raise Unavailable(f"the last block's stream does not read out as the logits here: {reason}", reason)
    batch = model._prepare(inputs, keywords)
    points = [point for block in owner.blocks for point in _points(block, also)]
    around = {name: owner.root.point(name) for name in (*called_with(model), "logits")}
    gathering = Gathering(owner)
    for point in (*points, *around.values()):
        gathering.need(point)
    with torch.no_grad():
        gathering.run_forward(lambda: owner.module(**batch))
    ids, mask, logits = (gathering.value(around[name]) if name in around else None for name in (*CALL, "logits"))
    assert logits is not None
    prompts = Prompts.of(model, ids, mask, logits)
    at = real_positions(prompts.mask, position)
    rows = torch.arange(len(at))
    values = {point.name: gathering.value(point)[rows, at].clone() for point in points}
    final = values[owner.blocks[-1].point("layer_output").name]
    return Stream(tuple(owner.blocks), prompts, final, logits[rows, at], values)


def _points(block: Host, also: Iterable[str]) -> list[Point | Computed]:
    """What is read of a block: its summands, its output, and the further values it has."""
    summands, leaving = _summands(block)
    found = [one.point for one in (*summands, leaving)]
    for name in also:
        host = _host(block, name)
        if host is not None:
            found.append(host.point(name.rpartition(".")[2]))
    return found


def _summands(block: Host) -> tuple[list[Summand], Summand]:
    """The bound summands of a block's identity, and what they make."""
    identity = identity_of(block)
    if isinstance(identity, Absent):
        raise Unavailable(f"the stream of {block.name} is no sum of parts here: {identity.reason}", identity.reason)
    *terms, made = places.identity(identity)
    return [_summand(block, term) for term in terms], _summand(block, made)


def _summand(block: Host, term: Term) -> Summand:
    """One term of a block's identity as what it is called, the host and point it is read at, and the factors it is times.

    A term is a value's name (`attention_output`, `mlp.routed_output`) or, where no value stands there, a place.
    """
    if term.place is not None:
        point = point_at(block, block.values["layer_output"], term.place, f", {term.place.text}")
        return Summand(term.place.text.split(" > ")[0].removeprefix("block."), block, point, term.factors)
    host = _host(block, term.value)
    if host is None:
        raise RowDoesNotFit(
            f"families/{block.owner.family.name}.py: {block.name} has no {term.value}, which its identity names"
        )
    name = term.value.rpartition(".")[2]
    kind = WORDS.get(name, name) if host.kind != "linear_attn" else "mixer"
    return Summand(kind, block, host.point(name), term.factors)


def _host(block: Host, name: str) -> Host | None:
    """The block, or the first of its parts that serves a value of this name; `mlp.x` asks that part alone."""
    part, _, own = name.rpartition(".")
    hosts = [block.parts[one] for one in ((part,) if part else PARTS) if one in block.parts]
    both = hosts if part else [block, *hosts]
    return next((host for host in both if own in host.values and host.absence(own) is None), None)


def _scaled(host: Host, factors: tuple[Factor, ...], tensor: Tensor) -> Tensor:
    apply = lambda x, factor: x / scale_of(host, factor)() if factor.divides else x * scale_of(host, factor)()
    return reduce(apply, factors, tensor)
