"""A model that takes images, on trial: made-up pictures, prompts with them, and everything the tower gives in one forward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tower import BoundTower
from nnatlas.bind.tree import Host
from nnatlas.check.findings import BROKEN, EXCEPTED, HOLDS, Finding, apart
from nnatlas.check.trial import TOLERANCES, WHOLE_FORWARD
from nnatlas.errors import InputError, Unavailable
from nnatlas.model import StandardizedTransformer
from nnatlas.values import OF_IMAGES

SIDE: Final = 48
TEXT: Final = "what is it?"
INTERIOR: Final = ("attention_scores", "attention_probabilities")
"""Values for which one attention call is computed step by step, so that rounding differs."""


class Seen(NamedTuple):
    """One value of the tower, its projector, or where the image enters."""

    host: Host
    name: str
    point: Point | Computed

    @property
    def key(self) -> str:
        """As tables write it: `vision.layers[i].self_attn.attention_output`."""
        host = {"block": "vision.layers[i]"}.get(self.host.kind, self.host.kind)
        host = f"vision.layers[i].{host}" if self.host.kind in ("self_attn", "mlp", "linear_attn") else host
        return f"{host}.{self.name}" if self.host.owner.in_front else f"{self.host.kind}.{self.name}"

    @property
    def label(self) -> str:
        """As `collect` takes it: `vision.layers.0.layer_output`."""
        return f"{self.host.name.replace('[', '.').replace(']', '')}.{self.name}"


class Sighted:
    """What the laws of towers look at: `model`, its `tower`, prompts, and `values` of one forward with one picture."""

    def __init__(self, model: StandardizedTransformer, tolerance: float | None = None) -> None:
        tower = model._owner.vision
        if not isinstance(tower, BoundTower):
            reason = getattr(model._owner.root.roles.get("vision"), "reason", "it reads text alone")
            raise InputError(f"{type(model._module).__name__} has no tower to check: {reason}")
        if model.processor is None:
            raise InputError("this model was loaded without a processor, so no picture can be handed in")
        self.model, self.tower, self.module = model, tower, model._module
        dtype = self.module.get_input_embeddings().weight.dtype
        own = TOLERANCES.get(dtype, TOLERANCES[torch.bfloat16])
        self.tolerance = own if tolerance is None else tolerance
        self.allowed = WHOLE_FORWARD * self.tolerance

    # -- inputs ------------------------------------------------------------------------------------------------------

    @cached_property
    def pictures(self) -> list[Any]:
        """Three, of which one is twice as wide: that matters to those who take any size."""
        first, second, third = (picture(seed) for seed in range(3))
        return [first, second.resize((2 * SIDE, SIDE)), third]

    @cached_property
    def batch(self) -> dict[str, Any]:
        """A prompt with one picture, prepared."""
        return self.prepared([TEXT], [self.pictures[:1]])

    def prepared(self, prompts: list[str], pictures: list[list[Any]]) -> dict[str, Any]:
        """A batch of prompts with pictures, as the model's own preparer makes it."""
        made: dict[str, Any] = self.model._prepare(prompts, {"images": pictures})
        return made

    def logits(self, batch: dict[str, Any]) -> Tensor:
        """The logits of a plain forward."""
        with torch.no_grad():
            return counted(self.module(**batch).logits)

    @cached_property
    def bare(self) -> Tensor:
        return self.logits(self.batch)

    # -- what there is to read ---------------------------------------------------------------------------------------

    def hosts(self) -> Iterator[Host]:
        yield self.tower.root
        if self.tower.projector is not None:
            yield self.tower.projector
        for block in self.tower.blocks:
            yield from (block, *block.parts.values())

    @cached_property
    def served(self) -> list[Seen]:
        """Every value that is said to be served at the tower, its projector and its blocks."""
        found = [
            Seen(host, name, host.point(name))
            for host in self.hosts()
            for name in host.values
            if host.absence(name) is None
        ]
        names = [key.rpartition(".")[2] for key in sorted(OF_IMAGES)]
        added = [(block, name) for block in self.model._owner.blocks for name in names if name in block.values]
        return [*found, *(Seen(block, name, block.point(name)) for block, name in added)]

    @cached_property
    def values(self) -> dict[str, Any]:
        """Each served value by label, from one forward; an error in words where it could not be read."""
        labels = [seen.label for seen in self.served]
        try:
            with torch.no_grad():
                found = self.model.collect(self.batch, labels)
            return {label: _copied(found[label]) for label in labels}
        except Exception:  # noqa: BLE001  a wrong cell must not hide the others
            return {label: self._alone(label) for label in labels}

    def _alone(self, label: str) -> Any:
        try:
            with torch.no_grad():
                return _copied(self.model.collect(self.batch, [label])[label])
        except Exception as fault:  # noqa: BLE001
            return f"{type(fault).__name__}: {fault}"

    # -- findings ----------------------------------------------------------------------------------------------------

    def finding(
        self, law: str, value: str, where: str, wrong: str | None, said: str = "", deviation: float | None = None
    ) -> Finding:
        """Broken for the reason given, else holding; a row's own exception where it declares one."""
        finding = Finding(law, value, where, BROKEN if wrong else HOLDS, wrong or said, deviation)
        return self.excused(finding) if wrong else finding

    def excused(self, finding: Finding) -> Finding:
        breaks = self.tower.family.breaks
        names = [f"{finding.law} {finding.value}", f"{finding.law} {finding.value.rpartition('.')[2]}", finding.law]
        if finding.law == "rows":  # a text model that sees its padding does so here too
            breaks = {**self.model._owner.family.breaks, **breaks}
            names += ["batch padding", "batch"]
        reason = next((breaks[name] for name in names if name in breaks), None)
        return finding.excused(reason) if reason else finding

    def close(
        self, law: str, value: str, where: str, said: str, got: Tensor, expected: Tensor, allowed: float
    ) -> Finding:
        """Two tensors that should be the same."""
        deviation = apart(got, expected)
        wrong = None if deviation <= allowed else f"not so: {said}; shapes {list(got.shape)}, {list(expected.shape)}"
        return self.finding(law, value, where, wrong, said, deviation)

    def excepted(self, law: str, value: str, where: str, reason: str) -> Finding:
        return Finding(law, value, where, EXCEPTED, reason)


def counted(logits: Tensor) -> Tensor:
    """Logits, with nought where a model rules an id out by the least number that there is."""
    return logits.masked_fill(logits.abs() > torch.finfo(logits.dtype).max * 1e-4, 0)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def picture(seed: int) -> Any:
    """Noise as a Pillow image, the same for the same seed."""
    from PIL import Image

    noise = torch.randint(0, 256, (SIDE, SIDE, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return Image.fromarray(noise.numpy())


__all__ = ["INTERIOR", "Seen", "Sighted", "Unavailable", "picture"]
