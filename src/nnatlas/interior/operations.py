"""Stopping at a torch function inside a module's forward, for families that write their arithmetic out themselves.

A fused `scaled_dot_product_attention` in such a forward is taken apart into its matrix products, softmax and dropout while
it is watched, so that a cell written for the step-by-step branch also holds on an sdpa load.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from greenlet import getcurrent
from torch import Tensor, nn
from torch.nn import functional as F

from nnatlas.bind.points import OPERATION, Point
from nnatlas.engine.payloads import Call, Result
from nnatlas.engine.run import Run
from nnatlas.engine.taps import INSTALLERS, PREPARE, PROGRESS, Remover
from nnatlas.interior.watching import Watch

_CALLS = ("matmul", "softmax", "dropout", "matmul")
PARTS = frozenset(_CALLS)
"""What a fused attention call does inside, in order; counted as done where nobody waits for a part, and it runs fused."""


class ModuleWatch(Watch):
    """The watch over one module's forward in one run, shared by all its operation places."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fused = function is F.scaled_dot_product_attention and bool(self._counted & PARTS)
        if not fused or getcurrent() is not self._run.forward:
            return super().__torch_function__(function, types, args, kwargs)
        if self.awaits(PARTS):
            with self:
                return _step_by_step(*args, **(kwargs or {}))
        self.pass_over(_CALLS)
        return function(*args, **(kwargs or {}))


def _step_by_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's reference formula for scaled dot-product attention, one call a step."""
    if enable_gqa:
        key, value = (side.repeat_interleave(query.shape[-3] // side.shape[-3], -3) for side in (key, value))
    scores = torch.matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=scores.dtype).masked_fill(
            ~attn_mask, torch.finfo(scores.dtype).min
        )
    scores = scores if attn_mask is None else scores + attn_mask
    pattern = F.dropout(F.softmax(scores, dim=-1), dropout_p, dropout_p > 0)
    return torch.matmul(pattern, value)


def _prepare(run: Run, point: Point) -> None:
    """Count from the start of a written-out forward, so that a place asked for halfway still has its number."""
    for module, counted in point.watched:
        if id(module) not in run.watches:
            run.watches[id(module)] = span = _Span(run, module, ModuleWatch(run, counted))
            run.keep(span.close)


def _install(run: Run, point: Point) -> Remover:
    operation, site = point.operation, point.site
    assert operation is not None
    watch: ModuleWatch = run.watches[id(point.module)].watch

    def stop(payload: Call | Result) -> None:
        if run.wants(site):
            run.reach(site, payload)

    when = watch.before if operation.side == "in" else watch.after
    return when(operation.function, operation.index, stop)


def _progress(run: Run, point: Point) -> bool:
    """Whether the watched forward that is running has made this point's call already."""
    span, operation = run.watches.get(id(point.module)), point.operation
    if span is None or operation is None or not span.on:
        return False
    calls = span.watch.begun if operation.side == "in" else span.watch.done
    return bool(calls[operation.function] > operation.index)


class _Span:
    """Keeps a watch on from the start of a module's call to its end."""

    def __init__(self, run: Run, module: nn.Module, watch: ModuleWatch) -> None:
        self.run, self.watch, self.on = run, watch, False
        self.hooks = (
            module.register_forward_pre_hook(self.start),
            module.register_forward_hook(self.end, always_call=True),
        )

    def start(self, *_: Any) -> None:
        if getcurrent() is self.run.forward:
            self.watch.restart()
            self.watch.__enter__()
            self.on = True

    def end(self, *_: Any) -> None:
        if self.on and getcurrent() is self.run.forward:
            self.on = False
            self.watch.__exit__(None, None, None)

    def close(self) -> None:
        self.on = False
        for hook in self.hooks:
            hook.remove()


PREPARE.append(_prepare)
INSTALLERS[OPERATION] = _install
PROGRESS[OPERATION] = _progress
