"""Point 1: a tap only where asked, and modules that are already running still stop."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, hooks_of, left_alone, plain, tiny


def test_outside_a_run_there_is_no_hook_and_inside_only_what_was_asked_for():
    model = tiny()
    with left_alone(model), model.trace(IDS):
        model.layers[1].mlp.mlp_output  # the first such read takes notes on the order of everything in the block
    with model.trace(IDS):
        assert hooks_of(model._module) == []
        model.layers[2].mlp.mlp_output
        armed = {name for name, part in model._module.named_modules() if hooks_of_one(part)}
        assert armed == {"", "model", "model.layers.2"}
    assert hooks_of(model._module) == []


def hooks_of_one(module):
    return [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_module_that_is_running_stops_at_its_own_output(rounds):
    """The body waits inside the attention call; the attention module and its block have already begun."""
    model = tiny()
    layer = model.layers[1]
    expected = plain(model, IDS, {"attention": layer.self_attn._module, "block": layer._module})
    for _ in range(rounds):
        with model.trace(IDS):
            layer.self_attn.attention_queries
            assert torch.equal(layer.self_attn.attention_output, expected["attention"])
            layer.mlp.down_proj.input
            assert torch.equal(layer.layer_output, expected["block"])


def test_reads_are_the_forwards_own_tensors():
    model = tiny()
    layer = model.layers[0]
    expected = plain(model, IDS, {"q": layer.self_attn.q_proj._module, "mlp": layer.mlp._module})
    with model.trace(IDS):
        assert torch.equal(layer.self_attn.q_proj.output, expected["q"])
        assert torch.equal(layer.mlp.output, expected["mlp"])
        assert torch.equal(model.logits, expected["logits"])


def test_a_value_read_twice_is_one_tensor():
    model = tiny()
    with model.trace(IDS):
        assert model.layers[1].layer_output is model.layers[1].layer_output
        assert model.layers[2].self_attn.attention_keys is model.layers[2].self_attn.attention_keys


def test_values_of_one_stop_come_in_any_order():
    model = tiny()
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        first = [attention.attention_queries, attention.attention_keys, attention.attention_values]
    with model.trace(IDS):
        second = [attention.attention_values, attention.attention_keys, attention.attention_queries][::-1]
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    mixture = tiny("mixtral")
    with mixture.trace(IDS):
        logits = mixture.layers[1].mlp.router_logits
        weights, indices = mixture.layers[1].mlp.expert_weights, mixture.layers[1].mlp.expert_indices
    with mixture.trace(IDS):
        assert torch.equal(mixture.layers[1].mlp.expert_indices, indices)
        assert torch.equal(mixture.layers[1].mlp.expert_weights, weights)
    chosen = logits.softmax(-1).topk(weights.shape[-1], dim=-1)
    assert torch.equal(chosen.indices, indices)
    assert torch.allclose(chosen.values / chosen.values.sum(-1, keepdim=True), weights, atol=1e-6)


def test_the_users_own_hooks_keep_working_and_are_seen():
    """A tap comes after the hooks that were there: what is read is what the model goes on with."""
    model, seen = tiny(), []
    layer = model.layers[1]._module
    own = layer.register_forward_hook(lambda module, args, output: output + 1)
    watching = layer.register_forward_hook(lambda module, args, output: seen.append(output))
    try:
        with model.trace(IDS):
            out = model.layers[1].layer_output
            entering = model.layers[2].layer_input
        assert len(seen) == 1
        assert torch.equal(seen[0], out)
        assert torch.equal(entering, out)
        assert len(hooks_of(model._module)) == 2
    finally:
        own.remove()
        watching.remove()
