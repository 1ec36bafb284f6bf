"""What a model is like from outside, so that two moments can be compared: its numbers, hooks, flags and open runs.

Checksums stand for the numbers: a copy of every parameter would double the memory of the model on trial.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.tree import BoundModel

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


class Imprint:
    """Everything of a bound model that a run might leave changed."""

    def __init__(self, model: BoundModel) -> None:
        """Take down all that a run could leave behind: changed weights, flags, gradients, hooks, modes, functions, runs."""
        self.numbers = {name: _checksum(tensor) for name, tensor in model.module.state_dict(keep_vars=True).items()}
        self.flags = {name: parameter.requires_grad for name, parameter in model.module.named_parameters()}
        self.gradients = {name for name, parameter in model.module.named_parameters() if parameter.grad is not None}
        self.hooks = {name: _hooks(module) for name, module in model.module.named_modules()}
        self.modes = {name: module.training for name, module in model.module.named_modules()}
        self.attention = _interfaces(model.module)
        self.runs = len(model.runs)

    def differences(self, later: Imprint) -> dict[str, str]:
        """What is not as it was, in words, by what was compared."""
        said = {
            "numbers": "parameters or buffers that changed: {}",
            "flags": "parameters whose requires_grad changed: {}",
            "hooks": "modules whose hooks changed: {}",
            "modes": "modules whose training mode changed: {}",
            "attention": "attention functions that changed: {}",
        }
        found = {key: _changed(getattr(self, key), getattr(later, key)) for key in said}
        found["gradients"] = sorted(self.gradients ^ later.gradients)
        said["gradients"] = "parameters that gained or lost a gradient: {}"
        found["runs"] = [f"{later.runs - self.runs}"] if later.runs != self.runs else []
        said["runs"] = "runs left open: {}"
        return {key: said[key].format(", ".join(names[:5])) if names else "" for key, names in found.items()}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]


def _checksum(tensor: Any) -> Any:
    """A number that changes with any bit of a tensor; where its bytes cannot be had, its count of in-place writes."""
    if not isinstance(tensor, Tensor) or tensor.device.type == "meta":
        return str(tensor)
    try:
        return zlib.crc32(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError):
        return tensor._version


def _hooks(module: nn.Module) -> tuple[int, ...]:
    return (*(len(getattr(module, name)) for name in _HOOKS), "forward" in vars(module))


def _interfaces(module: nn.Module) -> dict[str, str]:
    """What stands under each name of the attention interfaces that the model's files use."""
    found: dict[str, str] = {}
    for part in module.modules():
        names = getattr(type(part).forward, "__globals__", {})
        interface = names.get("ALL_ATTENTION_FUNCTIONS")
        for name, function in getattr(interface, "_local_mapping", {}).items():
            found[f"{type(part).__module__}: {name}"] = f"{getattr(function, '__qualname__', type(function).__name__)}"
    return found
