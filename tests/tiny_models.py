"""Tiny models that tests share, what must be true of them after any run, and a plain-hook reading to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nnatlas.model import StandardizedTransformer, load

IDS = torch.tensor([[5, 9, 2, 30, 7, 11]])
OTHER = torch.tensor([[8, 3, 21, 4, 17, 6]])


BORROWED: dict[str, tuple[StandardizedTransformer, dict[str, Any]]] = {}
"""The shared models that the running test asked for, and what they were like when first made."""


def tiny(model_type: str = "llama", implementation: str | None = None) -> StandardizedTransformer:
    """One model of a type per process: tests must leave it as they found it, and are held to it (conftest.py)."""
    BORROWED[f"{model_type} {implementation or ''}"] = made = _made(model_type, implementation)
    return made[0]


@cache
def _made(model_type: str, implementation: str | None) -> tuple[StandardizedTransformer, dict[str, Any]]:
    options = {} if implementation is None else {"attn_implementation": implementation}
    model = load(f"tiny:{model_type}", **options)
    return model, marks_on(model)


def marks_on(model: StandardizedTransformer) -> dict[str, Any]:
    """What a careless test leaves behind for the next one, quickly read: `left_alone` looks closer.

    Weights are not among it: RWKV rescales its own when it is first run.
    """
    parameters = list(model._module.parameters())
    return {
        "hooks": len(hooks_of(model._module)),
        "forwards": [name for name, part in model._module.named_modules() if "forward" in vars(part)],
        "runs": len(model._owner.runs),
        "training": model._module.training,
        "gradients": sum(one.requires_grad or one.grad is not None for one in parameters),
    }


def put_back() -> dict[str, dict[str, Any]]:
    """What is different on the borrowed models, which are given back; after a difference they are made anew."""
    found = {name: (before, marks_on(model)) for name, (model, before) in BORROWED.items()}
    BORROWED.clear()
    wrong = {name: now for name, (before, now) in found.items() if now != before}
    if wrong:
        _made.cache_clear()
    return wrong


def hooks_of(module: nn.Module) -> list[Any]:
    """Every hook on a module or below."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [hook for part in module.modules() for kind in kinds for hook in getattr(part, kind).values()]


def state_of(model: StandardizedTransformer) -> tuple[Any, ...]:
    """What no run may change: weights, hooks, forwards, attention functions, open runs, the thread's modes."""
    weights = {name: tensor.clone() for name, tensor in model._module.state_dict().items()}
    forwards = [name for name, part in model._module.named_modules() if "forward" in vars(part)]
    attention = (dict(ALL_ATTENTION_FUNCTIONS._local_mapping), dict(ALL_ATTENTION_FUNCTIONS._global_mapping))
    modes = (torch._C._len_torch_function_stack(), torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    autocast = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
    return weights, (len(hooks_of(model._module)), forwards, attention, list(model._owner.runs), modes, autocast)


@contextmanager
def left_alone(model: StandardizedTransformer) -> Iterator[None]:
    """Fails if the body leaves a trace on the model or the thread."""
    weights, rest = state_of(model)
    yield
    now, other = state_of(model)
    assert all(torch.equal(now[name], weights[name]) for name in weights), "a weight changed"
    assert other == rest


def plain(
    model: StandardizedTransformer, ids: Tensor, read: dict[str, nn.Module], **keywords: Any
) -> dict[str, Tensor]:
    """The outputs of some modules and the logits, by nothing but PyTorch's own forward hooks."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            found[name] = (output[0] if isinstance(output, tuple) else output).clone()

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in read.items()]
    try:
        found["logits"] = model._module(ids, **keywords).logits
    finally:
        for handle in handles:
            handle.remove()
    return found
