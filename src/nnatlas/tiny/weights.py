"""Random weights with which a tiny model behaves like a model: nothing neutral, nothing that explodes.

After the library's own initialisation every norm gain is 1, every bias 0 and every matrix small, so a reader that forgets a
gain or a bias would still agree with the model.  Here they all move, while activations stay of the order of 1, attention
patterns lie between uniform and one-hot, and logits spread over a few units.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

TABLE_STD = 0.25  # of embeddings and of the head: logits of about 0.25 * sqrt(hidden 64) = 2
NOISE = 0.3
FLOW = 1.0  # how much larger than at its input a linear map's output is


@torch.no_grad()
def perturb(model: PreTrainedModel) -> None:
    """Give every parameter, and every float buffer that a checkpoint would carry, a value drawn from torch's generator."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    head = model.get_output_embeddings()
    tables |= {id(head.weight)} if head is not None else set()
    for tensor in [*model.parameters(), *_persistent_buffers(model)]:
        if tensor.is_floating_point():
            tensor.copy_(_table(tensor) if id(tensor) in tables else _moved(tensor))


def _moved(tensor: Tensor) -> Tensor:
    tensor = torch.nan_to_num(tensor.float(), posinf=0.0, neginf=0.0)
    if tensor.ndim >= 2 and _is_centred(tensor):
        return torch.randn_like(tensor) * _glorot(tensor.shape)
    noise = NOISE * torch.randn_like(tensor).clamp(-2, 2)
    return torch.where(tensor == 0, noise, tensor * (1 + noise))


def _table(tensor: Tensor) -> Tensor:
    return TABLE_STD * torch.randn(tensor.shape)


def _is_centred(tensor: Tensor) -> bool:
    """Whether values lie around zero, as matrices do; gains, decays and time constants lie around something else."""
    return bool(tensor.mean().abs() <= 0.5 * tensor.std(correction=0))


def _glorot(shape: torch.Size) -> float:
    """Glorot's standard deviation (2010), which needs not know which of the last two axes is the input."""
    if len(shape) > 3:  # a convolution over images: [out, in, height, width]
        return FLOW / math.sqrt(math.prod(shape[1:]))
    return FLOW * math.sqrt(2 / (shape[-1] + shape[-2]))


def _persistent_buffers(model: nn.Module) -> list[Tensor]:
    saved = set(model.state_dict(keep_vars=True))
    return [buffer for name, buffer in model.named_buffers() if name in saved]
