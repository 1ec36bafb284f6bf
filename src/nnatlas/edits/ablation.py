"""Ablation: a value, or some of its heads or neurons, replaced by zero, by its mean, or by what it is on other prompts.

`zero` is the bluntest; a `mean` over reference prompts takes away what differs from prompt to prompt and keeps what is
always there; `resample` puts in what the value is at a token of the reference prompts, drawn anew for each position (Chan
et al. 2022, "Causal Scrubbing").  A draw depends on the seed, on the row and on the token's number in it, so it is the
same for all values of an edit, with a cache or without, and again after loading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.edits.edit import Edit
from nnatlas.edits.references import at_real_tokens
from nnatlas.edits.where import Positions, Where
from nnatlas.errors import InputError, LayoutError
from nnatlas.model.asked import several, value_names, whole, within

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer

HOW = ("zero", "mean", "resample")
APART = 7919
"""How far apart in the order of draws neighbouring rows begin."""


@dataclass(eq=False, repr=False)
class Ablation(Edit):
    """Values replaced at chosen positions.  Made by `ablate`, `ablate_heads` and their like.

    `targets` has a list of heads or neurons (places on a value's third axis) for each value, or None for the whole of it;
    `references` a mean `[...]` or a pool `[tokens, ...]` of each value's chosen part.
    """

    targets: dict[str, list[int] | None]
    how: str
    references: dict[str, Tensor]
    where: Where
    seed: int
    what: str

    def parts(self) -> list[tuple[str, Function]]:
        return [(name, partial(self._replace, name)) for name in self.targets]

    def _replace(self, name: str, value: Tensor, call: ModelCall) -> Tensor:
        if value.shape[:2] != (call.batch, call.seq):
            raise LayoutError(f"{name} is {list(value.shape)}: only values with the axes batch seq ... are ablated")
        entries = _places(name, self.targets[name], value)
        part = value if entries is None else value[:, :, entries]
        new = self.where.put(call, self._instead(name, part, call), part)
        return new if entries is None else value.index_copy(2, torch.tensor(entries, device=value.device), new)

    def _instead(self, name: str, part: Tensor, call: ModelCall) -> Tensor:
        """What stands in for a part `[batch, seq, ...]`."""
        if self.how == "zero":
            return torch.zeros_like(part)
        reference = self.references[name].to(part)
        if self.how == "resample":
            reference = reference[self._draws(call).to(part.device)]
        return reference.expand_as(part)

    def _draws(self, call: ModelCall) -> Tensor:
        """Which token of the pool stands in for each position, `[batch, seq]`."""
        rows = torch.arange(call.batch)[:, None] * (0 if call.alike else APART)
        return self._order[(call.here(call.numbers).cpu() + rows) % len(self._order)]

    @cached_property
    def _order(self) -> Tensor:
        """The pool's tokens in the order in which they are drawn."""
        size = len(next(iter(self.references.values())))
        return torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))

    def describe(self) -> str:
        by = {
            "zero": "zero",
            "mean": "their mean",
            "resample": f"values drawn from reference prompts (seed {self.seed})",
        }
        return f"replaces {self.what} by {by[self.how]}, {self.where.words}"


def ablate(
    model: StandardizedTransformer,
    values: str | Sequence[str] | Mapping[str, list[int] | None],
    how: str = "zero",
    using: Any = None,
    positions: Positions = None,
    on: str = "both",
    seed: int = 0,
    what: str | None = None,
) -> Ablation:
    """Replace values by name, while the `with` lasts; the functions for heads, neurons and layers come down to this.

    `values` are names such as "layers.3.mlp.mlp_output" with the axes `batch seq ...`, or `{name: places on the third
    axis}`.  `how` is "zero", "mean" or "resample"; the latter two take their values from the prompts in `using`.
    `positions` are counted among each row's real tokens, -1 the last; `on` is "prompt", "new" or "both".

    Raises:
        InputError: an unknown `how`, or no prompts to take means or samples from.
        Unavailable, ReadOnly: a value that the model does not have, or that no edit reaches.

    >>> with edits.ablate(model, "layers.3.mlp.mlp_output", how="mean", using=["The sun is", "He said"]):
    ...     logits = model(ids).logits
    """
    if how not in HOW:
        raise InputError(f"how={how!r}: there are {', '.join(HOW)}")
    if how != "zero" and using is None:
        raise InputError(f'how="{how}" takes its values from other prompts: using=["...", "..."]')
    whole(seed, "seed")
    named = values if isinstance(values, Mapping) or values == [] else value_names(values)
    targets = (
        {
            name: None if own is None else [whole(one, "place", f" of {name}") for one in several(own)]
            for name, own in named.items()
        }
        if isinstance(named, Mapping)
        else dict.fromkeys(named)
    )
    _refuse_patches(model, targets)
    references = _references(model, targets, how, using) if how != "zero" else {}
    return Ablation(model, targets, how, references, Where(positions, on), seed, what or ", ".join(targets))


def _refuse_patches(model: StandardizedTransformer, names: Iterable[str]) -> None:
    """Values of an image tower have patches, not positions of the prompt: `LayoutError` before anything is changed."""
    for name in (one for one in names if one.startswith(("vision.", "projector."))):
        raise LayoutError(
            f"{name} has patches where other values have batch and seq, so it has no positions to ablate. "
            f"Change it by a function: with model.editing({name!r}, lambda value, call: value * 0)"
        )


def _references(
    model: StandardizedTransformer, targets: Mapping[str, list[int] | None], how: str, using: Any
) -> dict[str, Tensor]:
    """The mean, or every value, of each target over the real tokens of the reference prompts."""
    prompts = [using] if isinstance(using, str) else using
    found = at_real_tokens(model, prompts, targets)
    chosen: dict[str, Tensor] = {}
    for name, entries in targets.items():
        places = _places(name, entries, found[name][None])
        chosen[name] = found[name] if places is None else found[name][:, places]
    return chosen if how == "resample" else {name: one.mean(0) for name, one in chosen.items()}


def _places(name: str, entries: Sequence[Any] | None, value: Tensor) -> list[int] | None:
    """Places on the third axis of a value `[batch, seq, ...]`, counted from its beginning."""
    if entries is None:
        return None
    return [within(one, value.shape[2], "place", f" on the third axis of {name}") for one in entries]
