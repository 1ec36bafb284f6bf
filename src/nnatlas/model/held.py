"""Norms and readouts with their statistics held at one input: affine maps, under which parts of a sum have parts of its result.

A norm divides by a number it takes from its input.  Held at its value, what is left is linear: centring (or none), a gain
for each dimension, one scale for each position, and a bias.  These are found by asking the module, whatever it is called
and however it writes its gain, and proven on the input at hand (the linearised norm of Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits", and of direct logit attribution since).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.cells import scale_of
from nnatlas.bind.tree import BoundModel
from nnatlas.errors import Unavailable
from nnatlas.model.readout import barred, stages_of, through
from nnatlas.places import Absent, Factor

Map = Callable[[Tensor], Tensor]
CLOSE, ROUGH = 1e-4, 3e-2
"""How well a norm must be told by its gain, bias and scale; the second in half precision."""


def tolerance(dtype: torch.dtype) -> float:
    """How near, relatively, what is put together must come to what the model computed; norms reckon in float32 at best."""
    return CLOSE if dtype in (torch.float32, torch.float64) else ROUGH


def held_norm(norm: Any, at: Tensor) -> Map:
    """A norm as the affine map that it is at `at`, `[..., hidden_size]`, its scale held there.

    Raises:
        Unavailable: the module is not a root mean square or layer norm, perhaps with a bias.
    """
    gain, bias, centred = _told(norm, at)
    prepared = lambda x: gain * (x - x.mean(-1, keepdim=True) if centred else x)
    whole, before = norm(at).to(gain.dtype) - bias, prepared(at.to(gain.dtype))
    scale = (whole * before).sum(-1, keepdim=True) / before.square().sum(-1, keepdim=True)
    if not (whole - scale * before).norm() <= tolerance(at.dtype) * whole.norm():
        kind = type(norm).__name__
        raise Unavailable(f"{kind} is not a norm of root mean square or variance, so it has no scale to hold")
    return lambda x: scale * prepared(x.to(gain.dtype)) + bias


def _told(norm: Any, at: Tensor) -> tuple[Tensor, Tensor, bool]:
    """A norm's gain and bias `[hidden_size]`, and whether it subtracts the mean, by what it makes of three inputs.

    The first has mean zero, its negative tells the bias; the third is constant, of which centring leaves nothing.
    """
    size = at.shape[-1]
    probe = torch.ones(size, dtype=torch.float64, device=at.device)
    probe[1::2] = -1
    if size % 2:
        probe[-3:] = torch.tensor([1, 1, -2])
    asked = torch.stack([probe, -probe, torch.ones_like(probe)]).to(at.dtype)
    given = norm(asked.reshape(3, *[1] * (at.ndim - 2), size)).reshape(3, size)
    given = given.to(torch.promote_types(given.dtype, torch.float32)).double()
    bias = (given[0] + given[1]) / 2
    gain = (given[0] - given[1]) / 2 * probe.square().mean().sqrt() / probe
    return gain, bias, bool((given[2] - bias).norm() < 0.5 * gain.norm())


def held_readout(model: BoundModel, at: Tensor) -> Map:
    """The model's readout as the affine map that it is at `at`: the norm's scale held, and of every cap its ratio.

    A cap takes a logit to a smaller one; held, it multiplies by the same ratio.  So `held(at)` is the logits themselves.

    Raises:
        Unavailable: one stream alone is not read out here, or the norm cannot be held.
    """
    if isinstance(model.family.readout, Absent):
        raise Unavailable(
            f"one stream cannot be read out here: {model.family.readout.reason}", model.family.readout.reason
        )
    held: list[Map] = []
    for stage in stages_of(model):
        held.append(_held_stage(model, stage, at))
        at = through(model, stage, at)
    return lambda x: reduce(lambda tensor, stage: stage(tensor), held, x)


def _held_stage(model: BoundModel, stage: str, at: Tensor) -> Map:
    """One stage of the readout as a linear map of the stream at `at` `[..., hidden_size]`: what attribution shares out by.

    A norm with its scale held as it is there; a soft cap by the ratio of what comes out to what goes in; nothing where a
    token is barred, whatever the stream says; the rest is linear.
    """
    word, _, field = stage.removeprefix("maybe ").partition(" ")
    norm = model.root.roles["norm"]
    if word == "norm" and not isinstance(norm, Absent):
        linear = held_norm(norm[0], at)
        return lambda x: linear(x).to(at.dtype)
    if word == "cap":
        ratio = torch.nan_to_num(through(model, stage, at) / at, nan=1.0)
        return lambda x: x * ratio
    if word == "never":
        ids = scale_of(model.root, Factor(field))()
        return lambda x: barred(x, ids, 0.0)
    return lambda x: through(model, stage, x)
