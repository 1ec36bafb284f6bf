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
from nnatlas.model.asked import at_least
from nnatlas.patching.cells import node
from nnatlas.patching.metrics import Judge
from nnatlas.patching.result import Patching
from nnatlas.patching.situation import Situation
from nnatlas.patching.study import Asked, Found, study

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def attribution_patching(
    model: StandardizedTransformer,
    clean: Any,
    corrupted: Any,
    value: str = "layer_output",
    over: str | Sequence[str] = "layer x position",
    metric: Asked = "logit_difference",
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
        >>> estimate = patching.attribution_patching(model, clean, corrupted, steps=8)
        >>> estimate.agreement(patching.activation_patching(model, clean, corrupted))
        Agreement(correlation=0.99..., max_error=5.0...)
    """
    at_least(1, steps=steps)
    ready = study(model, (clean, corrupted), value, over, metric, direction, "attribution patching")
    return ready.run(lambda situation, judge: _estimated(situation, judge, steps))


def _estimated(situation: Situation, judge: Judge, steps: int) -> Found:
    gradients = _integrated(situation, judge, steps) if steps > 1 else _gradients(situation, judge)
    base, source = situation.base, situation.source
    effects = {layer: gradients[layer] * (source.values[layer] - base.values[layer]) for layer in source.values}
    before = judge(base.logits, range(situation.pairs)).tolist()
    numbers = {patch: before[patch.pair] + float(situation.part(effects, patch).sum()) for patch in situation.patches()}
    way = "gradient times difference" + (f", averaged over {steps} steps" if steps > 1 else "")
    return Found(numbers, way, f"an estimate: {way}")


def _integrated(situation: Situation, judge: Judge, steps: int) -> dict[int, Tensor]:
    """Gradients averaged over midpoints between the base run's embeddings and the source run's."""
    base, source = (_entry(situation, run.ids) for run in (situation.base, situation.source))
    found = [_gradients(situation, judge, torch.lerp(base, source, (step + 0.5) / steps)) for step in range(steps)]
    return {layer: torch.stack([one[layer] for one in found]).mean(0) for layer in found[0]}


def _entry(situation: Situation, ids: Tensor) -> Tensor:
    """What enters the first block, `[pairs, seq, hidden_size]`."""
    stack = situation.stack
    with torch.no_grad(), stack.model.trace(**stack.call(ids)) as run:
        entry: Tensor = run.layers[0].layer_input.clone()
        run.stop()
    return entry


def _gradients(situation: Situation, judge: Judge, entry: Tensor | None = None) -> dict[int, Tensor]:
    """The metric's gradient at the value of every block, `[pairs, ...]`; `entry` replaces what enters the first block."""
    values: dict[int, Tensor] = {}
    stack = situation.stack
    with torch.enable_grad(), stack.model.trace(**stack.call(situation.base.ids)) as run:
        if entry is not None:
            run.layers[0].layer_input = entry
        for layer, name in stack.names.items():
            value = getattr(*node(run, name))
            values[layer] = value if value.requires_grad else value.requires_grad_()
        score = judge(run.logits[:, -1].float(), range(situation.pairs)).sum()
    if not score.requires_grad:
        raise InputError(
            "the metric has no gradient at the logits, which an estimate is made of: patch instead, or change it"
        )
    found = torch.autograd.grad(score, list(values.values()), allow_unused=True)
    zero = (torch.zeros_like(value) if one is None else one for one, value in zip(found, values.values(), strict=True))
    return dict(zip(values, zero, strict=True))
