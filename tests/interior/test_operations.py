"""Places at torch functions inside a written-out forward, on the step-by-step branch and on the fused one."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny

VALUES = ["queries", "keys", "values", "scores", "probabilities", "head_outputs"]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("model_type", ["falcon", "bloom", "gptj"])
def test_the_equations_of_attention(model_type, implementation):
    if model_type != "falcon" and implementation == "sdpa":
        pytest.skip("written out in one way only")
    model = tiny(model_type, implementation)
    attention = model.layers[1].self_attn
    groups = attention.num_heads // attention.num_kv_heads
    with left_alone(model), model.trace(IDS):
        found = {name: getattr(attention, f"attention_{name}") for name in sorted(VALUES, key=order_of(model))}
    values = found["values"].repeat_interleave(groups, 1)
    assert torch.allclose(found["scores"].softmax(-1), found["probabilities"], atol=1e-5)
    mixed = (found["probabilities"] @ values).transpose(1, 2)
    assert torch.allclose(mixed, found["head_outputs"], atol=1e-4)


def order_of(model):
    """BLOOM and Falcon give the values only to the product with the pattern."""
    late = {"values": 4.5} if model.family.name in ("bloom", "falcon") else {}
    return lambda name: late.get(name, VALUES.index(name))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("value", VALUES)
def test_edits_land_on_the_fused_branch_too(value, implementation):
    model, name = tiny("falcon", implementation), f"attention_{value}"
    plain, changed = model._module(IDS).logits, []
    for assign in (False, True):
        with left_alone(model), model.trace(IDS):
            attention = model.layers[1].self_attn
            if assign:
                setattr(attention, name, getattr(attention, name) * 0.5)
            else:
                getattr(attention, name).mul_(0.5)
            changed.append(model.logits)
    assert (changed[0] - plain).abs().max() > 1e-3
    assert torch.allclose(*changed, atol=1e-4)


def test_a_fused_attention_runs_fused_where_nobody_looks_inside():
    model = tiny("falcon", "sdpa")
    plain = model._module(IDS).logits
    with model.trace(IDS):
        for layer in model.layers:
            layer.self_attn.attention_premix, layer.self_attn.attention_output, layer.mlp.mlp_output
        assert torch.equal(model.logits, plain)


def test_a_place_asked_for_halfway_still_has_its_number():
    """The body waits at the fused projection, inside the attention, before it asks for the softmax."""
    model = tiny("falcon", "sdpa")
    with model.trace(IDS):
        expected = model.layers[1].self_attn.attention_probabilities
    with model.trace(IDS):
        model.layers[1].self_attn.query_key_value.output
        assert torch.equal(model.layers[1].self_attn.attention_probabilities, expected)


def test_the_bodys_own_functions_are_not_counted():
    model = tiny("bloom")
    with model.trace(IDS):
        expected = model.layers[1].self_attn.attention_probabilities
    with model.trace(IDS):
        model.layers[1].self_attn.attention_queries
        torch.softmax(torch.zeros(3), 0), torch.nn.functional.dropout(torch.ones(2)), torch.bmm(*torch.ones(2, 1, 2, 2))
        assert torch.equal(model.layers[1].self_attn.attention_probabilities, expected)
