"""A model on trial: the inputs it is run on, the blocks that stand for their kinds, and everything read from one forward.

Two different rows of ids are run side by side: what only positions decide is the same in both, what tokens decide is not.
The forward is run once for all laws that compare values with each other; those that edit or differentiate run their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor

from nnatlas import places
from nnatlas.bind.cells import native_point, point_at
from nnatlas.bind.points import OUTPUT, Computed, Point
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.check.findings import BROKEN, EXCEPTED, HOLDS, UNPROVEN, Finding, apart
from nnatlas.check.images import needed
from nnatlas.check.imprint import Imprint
from nnatlas.check.snapshot import Reading, Snapshot
from nnatlas.errors import AtlasError, InputError, Unavailable
from nnatlas.layouts import LAYOUTS
from nnatlas.model import StandardizedTransformer
from nnatlas.model.stream import identity_of
from nnatlas.places import Absent, Term
from nnatlas.values import Value

LENGTH: Final = 12
"""Longer than the sliding windows and chunks of tiny models (8), so that a sliding block differs from a full one."""
TOLERANCES: Final = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
WHOLE_FORWARD: Final = 10
"""Rounding grows over a forward: laws that compare two forwards allow this many times the tolerance."""
_OUT = Value("output", "module", LAYOUTS["Own"], "what the module returned")


class Trial:
    """What the laws look at.  `pair` holds two different rows of ids, `single` the first of them."""

    def __init__(
        self,
        model: StandardizedTransformer,
        inputs: Any = None,
        blocks: Sequence[int] | None = None,
        tolerance: float | None = None,
    ) -> None:
        """Prepare what the laws share: `pair`, ids `[2, seq]` of two prompts, `single`, its first row, and the blocks to look at.

        Where a text model cannot run without an image, the pair has places for one in front, and `edited_at`, the position that
        edits are made at, moves with it.  `firsts` is the first block of every kind.
        """
        self.model, self.owner, self.module = model, model._owner, model._module
        self.imprint = Imprint(self.owner)
        self.misfits: dict[tuple[str, str], str] = {}  # cells that do not fit the module: host and value, and why
        dtype = self.module.get_input_embeddings().weight.dtype
        self.tolerance = tolerance if tolerance is not None else TOLERANCES.get(dtype, TOLERANCES[torch.bfloat16])
        self.pair = _random_pair(model) if inputs is None else _given_pair(model, inputs)
        text = self.pair.shape[1]
        if (images := needed(self.owner, model._prepare, self.pair)) is not None:
            self.model = StandardizedTransformer(self.owner, model.tokenizer)  # the one handed in stays as it is
            self.model.__dict__["_prepare"] = images
            self.pair = images.in_front(self.pair)
        self.single = self.pair[:1]
        self.edited_at = self.pair.shape[1] - text + text * 2 // 3
        self.blocks = [self.owner.blocks[at] for at in _chosen(self.owner, blocks)]
        self.firsts = {group[0] for group in _kinds(self.owner.blocks if blocks is None else self.blocks).values()}

    # -- what there is to read -------------------------------------------------------------------------------------

    @property
    def hosts(self) -> Iterator[Host]:
        yield self.owner.root
        for block in self.blocks:
            yield block
            yield from block.parts.values()

    @cached_property
    def _found(self) -> list[Reading]:
        return self._served(self.hosts)

    @cached_property
    def snapshot(self) -> Snapshot:
        """Every value of the chosen blocks, and the stream's everywhere, from one forward over `pair`."""
        return self._snapshot(self._found)

    @cached_property
    def readings(self) -> list[Reading]:
        """Every value served at the model and the chosen blocks, in the order in which the forward computes them."""
        return sorted(self._found, key=self.snapshot.place)

    def _served(self, hosts: Iterable[Host]) -> list[Reading]:
        return [r for host in hosts for name in host.values if (r := self._reading(host, name)) is not None]

    def _reading(self, host: Host, name: str) -> Reading | None:
        """A value ready to be read; None where the row says that it is absent.  A cell that does not fit is a misfit."""
        try:
            reading = Reading(host, host.values[name], host.point(name))
            return (
                None if reading.point.in_tower or not reading.bare else reading
            )  # also asks for what it is computed from
        except Unavailable:
            return None
        except (AtlasError, AttributeError, KeyError, TypeError, ValueError) as fault:
            self.misfits[host.name, name] = f"{type(fault).__name__}: {fault}"
            return None

    def _snapshot(self, readings: list[Reading]) -> Snapshot:
        """The chosen blocks in full, of the others what the stream's laws need."""
        points: list[Point | Computed] = [reading.point for reading in readings]
        rest = [block for block in self.owner.blocks if block not in self.blocks]
        points += [r.point for b in rest for r in self._served((b, *b.parts.values())) if r.value.name in _needed(b)]
        points += [point for b in self.owner.blocks for term in _identity(b) if (point := self.summand(b, term))]
        points += [point for block in self.blocks for role in _PROJECTIONS if (point := self.output_of(block, role))]
        return Snapshot(self.owner).take(points, lambda: self.module(**self.batch(self.pair)))

    def summand(self, block: Host, term: Term) -> Point | Computed | None:
        """The point of a summand of the identity that is a place, not a value."""
        if term.place is None:
            return None
        return point_at(block, block.values["layer_output"], term.place, f", {term.place.text}")

    def output_of(self, block: Host, role: str) -> Point | None:
        """The native output of the module that plays a role, unless that module is the block itself."""
        bound = block.role(role)
        if not isinstance(bound, tuple) or bound[0] is block.module:
            return None
        return native_point(self.owner, f"{bound[1]}.output", bound[1], OUTPUT, None, _OUT)

    # -- running ---------------------------------------------------------------------------------------------------

    def batch(self, ids: Any) -> dict[str, Any]:
        return self.model._prepare(ids, {})

    def logits(self, ids: Tensor) -> Tensor:
        """Logits of a bare forward."""
        with torch.no_grad():
            return self.module(**self.batch(ids)).logits

    @cached_property
    def bare(self) -> Tensor:
        """The bare forward's logits on the first row."""
        return self.logits(self.single)

    @cached_property
    def repeats(self) -> bool:
        """Whether the bare forward gives the same bits twice (some accelerator kernels do not)."""
        return torch.equal(self.bare, self.logits(self.single))

    @property
    def other_course(self) -> float:
        """How far logits may move when attention goes step by step: in half precision that rounds every score differently."""
        return self.tolerance if self.tolerance <= TOLERANCES[torch.float32] else WHOLE_FORWARD * self.tolerance

    # -- findings --------------------------------------------------------------------------------------------------

    def holds(self, law: str, value: str, where: str, detail: str, deviation: float, allowed: float) -> Finding:
        """A finding from a measured deviation."""
        return Finding(law, value, where, HOLDS if deviation <= allowed else BROKEN, detail, deviation)

    def equal(
        self, law: str, value: str, where: str, detail: str, got: Tensor, expected: Tensor, factor: float = 1
    ) -> Finding:
        """Two tensors agree within `factor` tolerances."""
        return self.holds(law, value, where, detail, apart(got, expected), factor * self.tolerance)

    def broken(self, law: str, reading: Reading, why: str) -> Finding:
        return Finding(law, reading.value.key, reading.where, BROKEN, why)

    def unproven(self, law: str, value: str, where: str, why: str) -> Finding:
        return Finding(law, value, where, UNPROVEN, why)

    def excepted(self, law: str, value: str, where: str, why: str) -> Finding:
        return Finding(law, value, where, EXCEPTED, why)


_STREAM = ("layer_input", "layer_mid", "layer_output", "attention_output", "mlp_output")
_PROJECTIONS = ("o_proj", "down_proj", "mlp")


def _identity(block: Host) -> tuple[Term, ...]:
    stated = identity_of(block)
    return () if isinstance(stated, Absent) else places.identity(stated)


def _needed(block: Host) -> set[str]:
    """What the stream's laws need of a block."""
    return {*_STREAM, *(term.value.rpartition(".")[2] for term in _identity(block))}


def _random_pair(model: StandardizedTransformer) -> Tensor:
    """Ids from the middle of the vocabulary: special ones sit at its ends."""
    entries = model._owner.root.sizes["vocab_size"]
    draw = torch.Generator().manual_seed(0)
    return torch.randint(entries // 8, entries // 2, (2, LENGTH), generator=draw).to(model.device)


def _given_pair(model: StandardizedTransformer, inputs: Any) -> Tensor:
    """The first row of what was given, and the same ids backwards."""
    batch = model._prepare(inputs, {})
    ids, mask = batch["input_ids"][0], batch.get("attention_mask")
    ids = ids if mask is None else ids[mask[0].bool()]
    if len(ids) < 3:
        raise InputError(f"a check needs at least three tokens, got {len(ids)}")
    return torch.stack((ids, ids.flip(0)))


def _chosen(owner: BoundModel, blocks: Sequence[int] | None) -> list[int]:
    """The blocks asked for, or the first and last of every kind."""
    count = len(owner.blocks)
    if blocks is not None:
        wrong = [at for at in blocks if not -count <= at < count]
        if wrong:
            raise InputError(f"block {wrong[0]} of {count}: they are numbered 0 to {count - 1}")
        return sorted({at % count for at in blocks})
    return sorted({end for group in _kinds(owner.blocks).values() for end in (group[0], group[-1])})


def _kinds(blocks: Sequence[Host]) -> dict[tuple[Any, ...], list[int]]:
    """The numbers of the blocks of each kind: those that look alike to the row, to Python and to the config."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for block in blocks:
        at, owner = block.index or 0, block.owner
        looks = (block.kinds, type(block.module), *block.parts, *_listed(owner.config, at, len(owner.blocks)))
        groups.setdefault(looks, []).append(at)
    return groups


def _listed(config: Any, at: int, count: int) -> list[str]:
    """What the config's per-block lists (`layer_types`, ...) say of one block, where they say only a few different things."""
    lists = [field for field in vars(config).values() if isinstance(field, list | tuple) and len(field) == count]
    return [str(entries[at]) for entries in lists if len(set(map(str, entries))) <= max(2, count // 2)]
