"""Random weights with which a tiny model behaves like a model: nothing neutral, nothing that explodes.

After the library's own initialisation every norm gain is 1, every bias 0 and every matrix small, so a reader that
forgets a gain or a bias would still agree with the model.  Here they all move, while activations stay of the order of
1, attention patterns lie between uniform and one-hot, and logits spread over a few units.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

TABLE_STD = 0.25  # of embeddings and of the head: logits of about 0.25 * sqrt(hidden 64) = 2
GAIN = 1.2  # of a linear map: the size of its output for an input of size 1
NOISE = 0.3
NEAR_ZERO = 0.05  # where a value that only scaled would stay too small to be noticed
TEMPERATURE = r"\.temp$"  # starts at 0, where every pattern would be uniform


@torch.no_grad()
def perturb(model: PreTrainedModel) -> None:
    """Draw every parameter, and every float buffer that a checkpoint would carry, from torch's generator."""
    spread = _spreads(model)
    saved = {id(tensor): (name, tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    for name, tensor in saved.values():  # tied weights once
        if tensor.is_floating_point() and not _is_table(tensor):
            start = torch.nan_to_num(tensor.float(), posinf=0.0, neginf=0.0)
            start = start + 1 if re.search(TEMPERATURE, name) else start
            tensor.copy_(_moved(start, spread.get(id(tensor))))
    for module in model.modules():
        for table in module._buffers.values():
            if table is not None and _chooses_experts(module, table):
                table.copy_(torch.rand(len(table), _experts(module)).argsort(-1)[:, : table.shape[1]])


def _experts(module: nn.Module) -> int:
    count: Any = module.num_experts
    return int(count)


def _chooses_experts(module: nn.Module, table: Tensor) -> bool:
    """Whether a buffer is a table that only a checkpoint fills: for every token id the experts that it goes to."""
    blank = table.dtype == torch.long and table.ndim == 2 and not table.any()
    return blank and table.shape[1] == getattr(module, "top_k", None) and hasattr(module, "num_experts")


def _is_table(tensor: Tensor) -> bool:
    """A buffer whose numbers differ from the start: worked out from the config, as the decay rates of a head are."""
    return not isinstance(tensor, nn.Parameter) and bool((tensor != tensor.flatten()[:1]).any())


def _spreads(model: PreTrainedModel) -> dict[int, float]:
    """The standard deviation of every weight whose use is known from its module's class, by the weight's `id`."""
    spread: dict[int, float] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            spread[id(module.weight)] = GAIN / math.sqrt(max(1, module.in_features))  # 0 where a part is switched off
        elif isinstance(module, Conv1D):
            spread[id(module.weight)] = GAIN / math.sqrt(module.nx)
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    tables += filter(None, [model.get_output_embeddings()])
    return spread | {id(table.weight): TABLE_STD for table in tables}


def _moved(tensor: Tensor, spread: float | None) -> Tensor:
    """Matrices anew; gains, biases, decays and time constants near where they were, or near 0 if they were 0."""
    if spread is not None or (tensor.ndim >= 2 and _is_centred(tensor)):
        return torch.randn_like(tensor) * (spread or _glorot(tensor.shape))
    noise = NOISE * torch.randn_like(tensor).clamp(-2, 2)
    return torch.where(tensor.abs() < NEAR_ZERO, noise, tensor * (1 + noise))


def _is_centred(tensor: Tensor) -> bool:
    """Whether values lie around zero, as those of matrices do."""
    return bool(tensor.mean().abs() <= 0.5 * tensor.std(correction=0))


def _glorot(shape: torch.Size) -> float:
    """Glorot's standard deviation (2010), which needs not know which of the last two axes is the input."""
    if len(shape) > 3:  # a convolution over images: [out, in, height, width]
        return GAIN / math.sqrt(math.prod(shape[1:]))
    return GAIN * math.sqrt(2 / (shape[-1] + shape[-2]))
