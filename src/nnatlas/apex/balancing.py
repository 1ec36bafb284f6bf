"""Keeping experts evenly used without an auxiliary loss: a router bias that follows the load (arXiv:2408.15664)."""

from __future__ import annotations

import torch
from torch import nn

from nnatlas.apex.feedforward import Apex1MoE


def next_bias(bias: torch.Tensor, load: torch.Tensor, alpha: float) -> torch.Tensor:
    """bias [experts] moved by `alpha` up where an expert got less than an even share of `load` [experts], down where
    more.

    Kept within -1 and 1.
    """
    share = load / load.sum()
    return (bias + alpha * torch.sign(1 / len(load) - share)).clamp(-1, 1)


@torch.no_grad()
def update_expert_bias(model: nn.Module) -> None:
    """Move every router bias once, by the load counted since the last time; call it after each optimiser step.

    Counts are summed over all processes first, so that replicas keep routing alike.
    """
    for block in model.modules():
        if isinstance(block, Apex1MoE) and block.expert_load is not None:
            load = block.expert_load
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                torch.distributed.all_reduce(load)
            if load.sum() > 0:
                block.expert_bias.copy_(next_bias(block.expert_bias, load, block.balancer_alpha))
            block.expert_load = None
