"""Attribution patching: what every patch would do, estimated from one gradient (or a few) instead of a forward each.

A patch changes a value by `source - base`, and the metric to first order by the gradient times that (Nanda 2023,
"Attribution patching"; Syed et al. 2023, "Attribution patching outperforms automated circuit discovery").  It errs where the
metric bends between the two runs, most of all at early blocks and large differences.  Averaging the gradient over several
prompts between the two, whose embeddings are mixtures of theirs, follows the bend (Sundararajan et al. 2017, "Axiomatic
attribution for deep networks"; Hanna et al. 2024, "Have faith in faithfulness").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.patching.cells import node
from nnatlas.patching.metrics import Measure
from nnatlas.patching.result import Patching
from nnatlas.patching.situation import Situation
from nnatlas.patching.study import Found, Judge, study

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def attribution_patching(
    model: StandardizedTransformer,
    clean: Any,
    corrupted: Any,
    value: str = "layer_output",
    over: str | Sequence[str] = "layer x position",
    metric: Judge = "logit_difference",
    *,
    direction: str = "denoise",
    steps: int = 1,
) -> Patching:
    """Estimate `activation_patching` on the same grid, from one forward and backward (or `steps` of them) a pair.

    Args:
        steps: 1 takes the gradient at the run that is patched.  More take it at that many prompts on the way to the
            other one (midpoints of equal steps between the embeddings), and average.
        model, clean, corrupted, value, over, metric, direction: as for `activation_patching`; a metric of your own must
            be differentiable.

    Raises:
        InputError, Unavailable: as for `activation_patching`.

    Example:
        >>> estimate = attribution_patching(model, clean, corrupted, steps=8)
        >>> estimate.agreement(activation_patching(model, clean, corrupted))
        Agreement(correlation=0.98, max_error=0.7)
    """
    if steps < 1:
        raise InputError(f"steps={steps}: at least one gradient is needed")
    ready = study(model, (clean, corrupted), value, over, metric, direction, "attribution patching")
    return ready.run(lambda situation, measure: _estimated(situation, measure, steps))


def _estimated(situation: Situation, measure: Measure, steps: int) -> Found:
    gradients = _integrated(situation, measure, steps) if steps > 1 else _gradients(situation, measure)
    effects = {
        layer: gradients[layer] * (source - situation.values[layer])
        for layer, source in situation.source.values.items()
    }
    base = float(measure(situation.logits[None]))
    numbers = {cell: base + float(situation.part(effects, cell).sum()) for cell in situation.cells()}
    way = "gradient times difference" + (f", averaged over {steps} steps" if steps > 1 else "")
    return Found(numbers, way, f"an estimate: {way}")


def _integrated(situation: Situation, measure: Measure, steps: int) -> dict[int, Tensor]:
    """Gradients averaged over midpoints between the base run's embeddings and the source run's."""
    base, source = situation.entries()
    found = [_gradients(situation, measure, torch.lerp(base, source, (step + 0.5) / steps)) for step in range(steps)]
    return {layer: torch.stack([one[layer] for one in found]).mean(0) for layer in found[0]}


def _gradients(situation: Situation, measure: Measure, entry: Tensor | None = None) -> dict[int, Tensor]:
    """The metric's gradient at the value of every block, one row each; `entry` replaces what enters the first block."""
    values: dict[int, Tensor] = {}
    with torch.enable_grad(), situation.model.trace(**situation.call(1)) as run:
        if entry is not None:
            run.layers[0].layer_input = entry
        for layer, name in situation.source.names.items():
            value = getattr(*node(run, name))
            values[layer] = value if value.requires_grad else value.requires_grad_()
        score = measure(run.logits[:, -1].float()).sum()
    found = torch.autograd.grad(score, list(values.values()), allow_unused=True)
    zero = (torch.zeros_like(value) if one is None else one for one, value in zip(found, values.values(), strict=True))
    return {layer: one[0] for layer, one in zip(values, zero, strict=True)}
