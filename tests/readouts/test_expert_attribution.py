"""Shares inside mixtures: they sum to the mixture's part, and each is its neuron's write read along, by hand."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import tiny

from nnatlas.errors import Unavailable
from nnatlas.readouts import logit_attribution

PROMPTS = ["The tower", "Hi"]
# plain, biases and sinks, shared experts and a dense first block, scaled, norms behind what is written
MIXTURES = ["mixtral", "gpt_oss", "deepseek_v3", "granitemoeshared", "qwen3_moe", "olmoe"]


@pytest.mark.parametrize("name", MIXTURES)
def test_neurons_sum_to_experts_and_experts_to_the_mixture(name):
    model = tiny(name)
    whole = logit_attribution(model, PROMPTS, 65, 70)
    experts, neurons = (logit_attribution(model, PROMPTS, 65, 70, by=by) for by in ("expert", "expert_neuron"))
    for found in (experts, neurons):
        assert ((found.sum - found.total) / found.total).abs().max() < 1e-3
    count = len(experts.columns)
    summed = neurons.values.unflatten(2, (count, -1)).sum(-1)
    torch.testing.assert_close(summed, experts.values, rtol=1e-4, atol=1e-5, equal_nan=True)
    mixtures = [at for at in range(model.num_layers) if at not in experts.missing]
    assert mixtures and (experts.values[:, mixtures] != 0).sum(-1).max() <= model.layers[mixtures[-1]].mlp.top_k
    if name in ("mixtral", "qwen3_moe", "olmoe"):  # nothing is shared and there are no biases
        mlp = whole.columns.index("mlp")
        torch.testing.assert_close(
            experts.values[:, mixtures].sum(-1), whole.values[:, mixtures, mlp], rtol=1e-3, atol=1e-4
        )


def test_a_neurons_share_by_hand():
    model = tiny("mixtral")
    names = [f"layers.1.mlp.{name}" for name in ("expert_indices", "expert_weights", "expert_neurons")]
    found = model.collect("Hi", [*names, "layers.3.layer_output"])
    indices, weights, own = (found[name] for name in names)
    final = found["layers.3.layer_output"][0, -1].double()
    norm, head = model.norm._module, model.lm_head._module
    scale = (final.square().mean() + norm.variance_epsilon).rsqrt()
    direction = scale * norm.weight.double() * head.weight[65].double()
    expert = int(indices[0, -1, 0])
    neurons, positions = own(expert)
    at = positions.tolist().index([0, indices.shape[1] - 1])
    down = model.layers[1].mlp.experts._module.down_proj[expert].double()  # hidden_size intermediate_size
    expected = float(weights[0, -1, 0]) * neurons[at].double() * (direction @ down)
    shares = logit_attribution(model, "Hi", 65, by="expert_neuron")
    columns = [at for at, name in enumerate(shares.columns) if name.startswith(f"{expert}.")]
    torch.testing.assert_close(shares.values[0, 1, columns].double(), expected, rtol=1e-3, atol=1e-5)
    assert expected.abs().max() > 1e-4
    layer, name, share = shares.top(1)[0]
    assert share == pytest.approx(float(shares.values[0, layer, shares.columns.index(name)])) and "." in name
    assert f"{name}: {share:+.2f}" in shares.grid().text[layer]


def test_where_there_are_none_it_says_so():
    with pytest.raises(Unavailable, match="no mixture of experts"):
        logit_attribution(tiny("llama"), "Hi", 65, by="expert")
