"""Stopping at Python functions: the right call, the right module, the right run, and nothing left behind."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from tests.tiny_models import IDS, OTHER, left_alone, plain, tiny
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.qwen3_next import modeling_qwen3_next

from nnatlas.errors import AlreadyRan, PlaceError, ReadOnly, Unavailable
from nnatlas.model import load
from nnatlas.places import Calls, Way, parse

RULE = "torch_chunk_gated_delta_rule"


def test_a_call_place_says_which_functions_and_which_side():
    place = parse(
        "linear_attn calls scan|fast_scan[2] > in.dt or step > after.state : batch channels seq? as batch seq channels"
    )
    scan, step = Way(("scan", "fast_scan"), 2, "in", "dt"), Way(("step",), 0, "after", "state")
    assert place.source == Calls("linear_attn", (scan, step))
    assert place.source.functions == ("scan", "fast_scan", "step")
    assert "scan or fast_scan number 2's call: input dt" in place.words()
    assert "step's call: argument state when its call is over" in place.words()


@pytest.mark.parametrize(
    "cell", ["linear_attn calls > in.x", "linear_attn calls scan", "linear_attn calls scan > within.x"]
)
def test_a_call_place_that_is_not_one_is_refused_with_a_caret(cell):
    with pytest.raises(PlaceError, match=r"\^"):
        parse(cell)


def test_values_are_what_the_function_was_called_with(monkeypatch):
    model, seen = tiny("qwen3_next"), []
    rule = getattr(modeling_qwen3_next, RULE)

    def noted(*args, **kwargs):
        seen.append((args, kwargs))
        return rule(*args, **kwargs)

    monkeypatch.setattr(modeling_qwen3_next, RULE, noted)
    with torch.no_grad():
        model._module(IDS)
    monkeypatch.undo()
    with torch.no_grad(), model.trace(IDS):
        for at, ((query, key, value), keywords) in enumerate(seen):
            mixer = model.layers[at].linear_attn
            assert torch.equal(mixer.attention_queries, query)
            assert torch.equal(mixer.attention_values, value)
            assert torch.equal(mixer.attention_keys, key)
            assert torch.allclose(mixer.decays, keywords["g"].exp())
            assert torch.equal(mixer.betas, keywords["beta"])
    assert len(seen) == 3


def test_the_name_is_free_again_however_the_run_ends():
    model, rule = tiny("qwen3_next"), getattr(modeling_qwen3_next, RULE)
    mixer, expected = model.layers[1].linear_attn, plain(model, IDS, {})["logits"]
    with left_alone(model), torch.no_grad():
        with model.trace(IDS):
            mixer.attention_queries
            assert getattr(modeling_qwen3_next, RULE) is not rule
            model.layers[1].mlp.mlp_output
            assert getattr(modeling_qwen3_next, RULE) is rule
        with model.trace(IDS) as run:
            mixer.attention_queries
            run.stop()
            assert torch.equal(model._module(IDS).logits, expected)
        assert getattr(modeling_qwen3_next, RULE) is rule
        with pytest.raises(ZeroDivisionError), model.trace(IDS):
            mixer.attention_queries.shape[0] / 0
        assert getattr(modeling_qwen3_next, RULE) is rule


def test_a_method_of_the_module_is_met_and_given_back():
    model = tiny("recurrent_gemma")
    unit = model.layers[0].linear_attn.rg_lru._module
    with torch.no_grad(), model.trace(IDS):
        written = model.layers[0].linear_attn.attention_values.clone()
        assert "_rnn_scan" in vars(unit)
        states = model.layers[0].linear_attn.states
        assert torch.allclose(states[:, 0], written[:, 0])  # the first position keeps nothing
    assert "_rnn_scan" not in vars(unit)


def test_other_calls_of_the_function_pass_through():
    """The body runs the whole model while its own run waits inside the function's call."""
    model = tiny("mamba2")
    expected = plain(model, OTHER, {})["logits"].detach()
    with torch.no_grad(), model.trace(IDS):
        model.layers[2].linear_attn.attention_values
        assert torch.equal(model._module(OTHER).logits, expected)


def test_two_runs_meet_the_function_each_in_its_own_turn():
    model = tiny("mamba2")
    scan = modeling_mamba2.mamba2_chunk_scan
    alone = [model.collect(ids, ["layers.1.linear_attn.attention_values", "logits"]) for ids in (IDS, OTHER)]
    with torch.no_grad(), model.trace(IDS) as first, model.trace(OTHER) as second:
        here = first.layers[1].linear_attn.attention_values
        there = second.layers[1].linear_attn.attention_values
        assert torch.equal(here, alone[0]["layers.1.linear_attn.attention_values"])
        assert torch.equal(there, alone[1]["layers.1.linear_attn.attention_values"])
        there *= 2
        left, right = first.logits, second.logits
    assert torch.equal(left, alone[0]["logits"])
    assert not torch.allclose(right, alone[1]["logits"])
    assert modeling_mamba2.mamba2_chunk_scan is scan


def test_an_edit_reaches_this_call_alone():
    model = tiny("mamba2")
    with torch.no_grad(), model.trace(IDS):
        model.layers[1].linear_attn.attention_values = 0.0
        assert model.layers[1].linear_attn.attention_head_outputs.abs().max() == 0
        assert model.layers[2].linear_attn.attention_head_outputs.abs().max() > 0


def test_a_value_of_a_call_that_is_over_has_already_run():
    model = tiny("mamba2")
    with torch.no_grad(), model.trace(IDS):
        model.layers[1].linear_attn.attention_premix
        with pytest.raises(AlreadyRan, match="attention_values"):
            model.layers[1].linear_attn.attention_values


def test_without_a_cache_there_is_no_last_state():
    model = tiny("qwen3_next")
    with torch.no_grad(), pytest.raises(Unavailable, match="use_cache=True"), model.trace(IDS, use_cache=False):
        model.layers[0].linear_attn.state_output


def test_a_function_that_takes_no_state_says_so():
    model = tiny("mamba")
    with torch.no_grad(), model.trace(IDS):
        assert model.layers[0].linear_attn.state_input.abs().max() == 0
        with pytest.raises(ReadOnly, match="starts from nothing"):
            model.layers[0].linear_attn.state_input = 1.0


def test_zeros_stand_for_a_state_that_was_not_passed_and_can_be_replaced():
    model = tiny("qwen3_next")
    mixer = model.layers[0].linear_attn
    with torch.no_grad(), model.trace(IDS):
        before = mixer.state_input
        assert before.abs().max() == 0
        plain_state = mixer.state_output.clone()
    with torch.no_grad(), model.trace(IDS):
        mixer.state_input = torch.ones_like(before)
        states, moved = mixer.states, mixer.state_output
    assert not torch.allclose(moved, plain_state)
    assert torch.allclose(states[:, -1], moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model_type", ["recurrent_gemma", "qwen3_next"])
def test_a_model_that_was_looked_into_can_be_forgotten(model_type):
    model = load(f"tiny:{model_type}")
    names = [name for name, (host, value) in model._owner.names.items() if host.absence(value) is None]
    model.collect(IDS, [name for name in names if ".linear_attn." in name])
    held = [weakref.ref(parameter) for parameter in model._module.parameters()]
    del model
    gc.collect()
    assert not any(parameter() is not None for parameter in held)
