"""One block's values and modules by name, for the laws that compare neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.cells import scale_of
from nnatlas.bind.points import Point
from nnatlas.bind.tree import Host
from nnatlas.check.findings import Finding
from nnatlas.check.trial import Trial
from nnatlas.places import Factor, Term

PARTS = ("self_attn", "linear_attn", "mlp")


class At:
    """`at("attention_output")` is that value as it was read, or None; `at.through("o_proj", x)` a module's answer to it."""

    def __init__(self, trial: Trial, block: Host) -> None:
        self.trial, self.block = trial, block

    def host(self, name: str) -> Host | None:
        """The block, or the first of its parts that has a value of this name; `linear_attn.x` asks that part alone."""
        part, _, own = name.rpartition(".")
        asked = (part,) if part else PARTS
        hosts = (*(() if part else (self.block,)), *(self.block.parts[one] for one in asked if one in self.block.parts))
        return next((host for host in hosts if own in host.values and host.absence(own) is None), None)

    def __call__(self, name: str) -> Any:
        host = self.host(name)
        return None if host is None else self.trial.snapshot.copy(host.point(name.rpartition(".")[2]))

    def term(self, term: Term) -> Tensor | None:
        """One summand of the block's identity, times its factors; None where it was not computed."""
        point = self.trial.summand(self.block, term)
        tensor = self(term.value) if point is None else self.trial.snapshot.copy(point)
        return None if tensor is None else reduce(self._weighed, term.factors, tensor)

    def without(self, factors: Iterable[Factor], tensor: Tensor) -> Tensor:
        """A tensor with the factors of a term taken off it again."""
        return reduce(self._weighed, (factor.remade(divides=not factor.divides) for factor in factors), tensor)

    def _weighed(self, tensor: Tensor, factor: Factor) -> Tensor:
        scale = scale_of(self.block, factor)()
        return tensor / scale if factor.divides else tensor * scale

    def output_of(self, role: str) -> Tensor | None:
        """What the module of a role returned in the same forward."""
        point = self.trial.output_of(self.block, role)
        return None if point is None else self.trial.snapshot.copy(point)

    def module(self, role: str) -> nn.Module | None:
        """The module that plays a role here."""
        bound = self.block.role(role)
        return bound[0] if isinstance(bound, tuple) else None

    def has(self, role: str) -> bool:
        return isinstance(self.block.role(role), tuple)

    def through(self, role: str, *inputs: Tensor | None) -> Tensor | None:
        """The module of a role, called by itself; None if there is none or it needs more than these inputs."""
        bound = self.block.role(role)
        if not isinstance(bound, tuple) or any(one is None for one in inputs):
            return None
        with torch.no_grad():
            try:
                return bound[0](*inputs)
            except (TypeError, ValueError, RuntimeError, AttributeError):
                return None

    def scaled(self, name: str, tensor: Tensor | None) -> Tensor | None:
        """A native tensor with the factors that the value's cell states."""
        host = self.host(name)
        point = None if host is None else host.point(name.rpartition(".")[2])
        if tensor is None or not isinstance(point, Point):
            return tensor
        for scale, divides in point.codec.scales:
            tensor = tensor / scale() if divides else tensor * scale()
        return tensor

    def equation(
        self, name: str, words: str, expected: Tensor | None, got: Tensor | None = None, factor: float = 1
    ) -> Iterator[Finding]:
        """The finding that a served value equals what its neighbours give; unproven where they do not give it."""
        host = self.host(name)
        got = self(name) if got is None else got
        if host is None or got is None:
            return
        key, where = host.values[name.rpartition(".")[2]].key, self.block.name
        if expected is None:
            yield self.trial.unproven("chain", key, where, f"no neighbour to compare with: {words}")
        else:
            yield self.trial.equal("chain", key, where, f"{name} == {words}", got, expected, factor)
