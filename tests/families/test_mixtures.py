"""Mixtures of experts: the same values under every experts implementation, and routing that can be forced."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nnatlas import StandardizedTransformer, load

IDS = torch.arange(5, 17)[None]
IMPLEMENTATIONS = ("eager", "batched_mm", "grouped_mm")
ON_THE_INTERFACE = ("mixtral", "gpt_oss", "qwen2_moe", "granitemoeshared", "deepseek_v3", "laguna", "ernie4_5_vl_moe")
CASES = [*((kind, name) for kind in ON_THE_INTERFACE for name in IMPLEMENTATIONS), ("dbrx", "eager")]
VALUES = ("router_logits", "expert_indices", "expert_weights", "routed_output", "mlp_output")


def sparse_block(model: StandardizedTransformer) -> int:
    return next(block.index for block in model._owner.blocks if block.parts["mlp"].absence("expert_indices") is None)


def through_down(experts: nn.Module, expert: int, neurons: Tensor) -> Tensor:
    """One expert's second half, by hand."""
    if hasattr(experts, "mlp"):
        return neurons @ experts.mlp.w2.unflatten(0, (experts.num_experts, -1))[expert]
    weight = experts.down_proj[expert]
    out = neurons @ (weight if getattr(experts, "is_transposed", False) else weight.T)
    bias = getattr(experts, "down_proj_bias", None)
    return out if bias is None else out + bias[expert]


@pytest.mark.parametrize("model_type", ON_THE_INTERFACE)
def test_values_do_not_depend_on_the_implementation(model_type: str) -> None:
    model, found = load(f"tiny:{model_type}"), {}
    at = sparse_block(model)
    for name in IMPLEMENTATIONS:
        model._module.set_experts_implementation(name)
        with model.trace(IDS):
            mlp = model.layers[at].mlp
            values = {value: getattr(mlp, value).clone() for value in VALUES[:3]}
            neurons = mlp.expert_neurons(1).neurons
            found[name] = {**values, "neurons": neurons, **{value: getattr(mlp, value).clone() for value in VALUES[3:]}}
    for name in IMPLEMENTATIONS[1:]:
        for value, expected in found["eager"].items():
            torch.testing.assert_close(found[name][value], expected, rtol=1e-4, atol=1e-4, msg=f"{value} under {name}")


@pytest.mark.parametrize("model_type, implementation", CASES, ids=["-".join(case) for case in CASES])
def test_forced_routing_is_what_the_experts_compute(model_type: str, implementation: str) -> None:
    """Every token to the last experts, with weights of our own: the routed output is their weighted sum, done by hand."""
    model = load(f"tiny:{model_type}")
    model._module.set_experts_implementation(implementation)
    at = sparse_block(model)
    mlp_host = model._owner.blocks[at].parts["mlp"]
    count, top_k = mlp_host.sizes["num_experts"], mlp_host.sizes["top_k"]
    chosen = torch.arange(count - top_k, count)
    weights = torch.linspace(0.3, 0.9, top_k)
    with torch.no_grad(), model.trace(IDS):
        mlp = model.layers[at].mlp
        mlp.expert_indices[:] = chosen
        mlp.expert_weights[:] = weights
        neurons = mlp.expert_neurons
        own = [neurons(int(expert)) for expert in chosen]
        assert len(neurons(0).neurons) == (0 if top_k < count else IDS.numel())
        routed, logits = mlp.routed_output.clone(), model.logits
    experts = mlp_host.role("experts")[0]
    expected = sum(
        weight * through_down(experts, int(e), part.neurons)
        for e, weight, part in zip(chosen, weights, own, strict=True)
    )
    point = mlp_host.point("routed_output")
    for scale, divides in point.codec.scales:
        expected = expected / scale() if divides else expected * scale()
    assert own[0].positions.tolist() == [[0, position] for position in range(IDS.numel())]
    torch.testing.assert_close(routed[0], expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits, model._module(IDS).logits)


def test_the_router_chooses_by_its_edited_logits() -> None:
    model = load("tiny:mixtral")
    with model.trace(IDS):
        model.layers[0].mlp.router_logits[..., 3] = 50.0
        chosen, weights = model.layers[0].mlp.expert_indices, model.layers[0].mlp.expert_weights
    assert (chosen == 3).any(-1).all()
    torch.testing.assert_close(weights[chosen == 3], torch.ones(IDS.numel()))


def test_llama4_weighs_what_the_chosen_expert_reads() -> None:
    """Off the interface: every expert runs on every token, weighed before it; the neurons are those of the chosen ones."""
    model = load("tiny:llama4_text")
    at = sparse_block(model)
    experts = model._owner.blocks[at].parts["mlp"].role("experts")[0]
    with torch.no_grad(), model.trace(IDS):
        entering, mlp = model.layers[at].mlp_input.clone(), model.layers[at].mlp
        mlp.expert_indices[:] = torch.tensor([2, 0])
        weight = mlp.expert_weights.clone()
        neurons = mlp.expert_neurons(2).neurons
    gate, up = (entering[0] * weight[0, :, :1] @ experts.gate_up_proj[2]).chunk(2, -1)
    torch.testing.assert_close(neurons, up * experts.act_fn(gate), rtol=1e-4, atol=1e-4)


def test_jetmoe_gives_the_neurons_of_its_sorted_tokens_back_in_order() -> None:
    model = load("tiny:jetmoe")
    module = model._owner.blocks[1].parts["mlp"].module
    with torch.no_grad(), model.trace(IDS):
        entering, mlp = model.layers[1].mlp_input.clone(), model.layers[1].mlp
        mlp.expert_indices[:] = torch.tensor([2, 0])
        neurons, positions = mlp.expert_neurons(2)
    gate, up = (entering[0] @ module.input_linear.weight[2].T).chunk(2, -1)
    torch.testing.assert_close(neurons, module.activation(gate) * up, rtol=1e-4, atol=1e-4)
    assert positions.tolist() == [[0, position] for position in range(IDS.numel())]
