"""Mixtures: routing is what the model does, editable together, and any expert's neurons can be had."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas.errors import LayoutError


@pytest.mark.parametrize("model_type", ["mixtral", "gpt_oss", "deepseek_v3"])
def test_routing_can_be_forced(model_type):
    """All tokens to the first experts, evenly: the output is what those experts give on their own."""
    model = tiny(model_type)
    layer = next(
        at for at in range(model.num_layers) if not model._owner.blocks[at].parts["mlp"].absence("expert_indices")
    )
    mlp = model.layers[layer].mlp
    plain = model._module(IDS).logits
    with left_alone(model), model.trace(IDS):
        chosen = mlp.expert_indices
        assert chosen.shape == (1, 6, mlp.top_k)
        assert chosen.max() < mlp.num_experts
        mlp.expert_indices = torch.arange(mlp.top_k).expand(1, 6, mlp.top_k)
        mlp.expert_weights = 1 / mlp.top_k
        forced = model.logits
    assert (forced - plain).abs().max() > 1e-4


def test_one_experts_neurons():
    """Through its own down projection and weight they give its part of the output."""
    model = tiny("mixtral")
    mlp = model.layers[1].mlp
    with left_alone(model), model.trace(IDS):
        weights, indices = mlp.expert_weights, mlp.expert_indices
        neurons = mlp.expert_neurons
        out = mlp.routed_output
    experts, total = mlp.experts._module, torch.zeros_like(out)
    for expert in range(mlp.num_experts):
        own, at = neurons(expert)
        assert len(own) == len(at) == int((indices == expert).sum())
        share = (weights * (indices == expert)).sum(-1)[at[:, 0], at[:, 1]]
        total[at[:, 0], at[:, 1]] += (own @ experts.down_proj[expert].T) * share[:, None]
    assert torch.allclose(total, out, atol=1e-4)
    with pytest.raises(LayoutError, match=f"expert 99 of {mlp.num_experts}"):
        neurons(99)
