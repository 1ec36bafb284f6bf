"""The tree as users meet it: names, hasattr, dir, completion, repr; none of them raises or moves a forward; copies work."""

from __future__ import annotations

import copy
import pickle
import rlcompleter

import pytest
import torch
from tests.tiny_models import IDS, left_alone, plain, tiny

from nnatlas.errors import NotInRun, Unavailable
from nnatlas.model import load


def test_hasattr_is_false_for_what_is_not_there():
    model = tiny()
    assert not hasattr(model.layers[1], "layer_output"), "outside a run"
    with model.trace(IDS) as run:
        model.layers[1].layer_output
        assert not hasattr(model.layers[2].mlp, "router_logits")
        assert not hasattr(model.layers[2], "linear_attn")
        assert not hasattr(model.layers[2], "no_such_name")
        assert run._run.where() == "layers[1].layer_output"
        assert hasattr(model.layers[2], "layer_output")
    with pytest.raises(Unavailable, match="dense MLP: it has no router"):
        model.layers[0].mlp.router_logits
    with pytest.raises(NotInRun, match=r"with model\.trace"):
        model.layers[0].mlp.mlp_output


def test_looking_around_moves_nothing():
    model = tiny()
    with left_alone(model), model.trace(IDS) as run:
        model.layers[1].layer_input
        for thing in (model, run, model.layers, model.layers[0], model.layers[2].self_attn, model.lm_head):
            assert len(dir(thing)) >= 3
            assert repr(thing)
        completed = {}
        for text in ("m.layers", "b.lay", "b.self_attn.att", "r.logit", "h.out"):
            names = {"m": model, "b": model.layers[2], "r": run, "h": model.lm_head}
            completer = rlcompleter.Completer(names)
            completed[text] = [match for at in range(40) if (match := completer.complete(text, at))]
        assert run._run.where() == "layers[1].layer_input"
        assert "b.layer_output" in completed["b.lay"]
        assert "b.self_attn.attention_probabilities" in completed["b.self_attn.att"]
        assert "r.logits" in completed["r.logit"]
        assert "h.output" in completed["h.out"]


def test_names_and_aliases():
    model = tiny("apertus")
    block = model.layers[1]
    assert block.attention_norm._module is block.input_layernorm._module is block._module.attention_layernorm
    assert block.post_attention_layernorm._module is block.mlp_norm._module
    olmo = tiny("olmo2").layers[1]
    assert olmo.post_attention_layernorm._module is olmo.attention_post_norm._module
    assert model.layers[-1]._module is model.layers[model.num_layers - 1]._module
    assert [layer._module for layer in model.layers[1:3]] == [model.layers[1]._module, model.layers[2]._module]
    with pytest.raises(IndexError, match="block 9 of 4: they are numbered 0 to 3"):
        model.layers[9]
    with pytest.raises(AttributeError, match="near: layer_output"):
        block.layer_outputt
    with pytest.raises(AttributeError, match=r"hangs on .*self_attn"):
        block.attention_output
    with pytest.raises(AttributeError, match="not a value here"):
        block.layer_outputt = 1


def test_sizes_on_the_model_and_on_hosts():
    model = tiny("gemma2")
    assert (model.num_layers, model.hidden_size) == (4, 64)
    attention = model.layers[0].self_attn
    with model.trace(IDS):
        assert attention.attention_queries.shape == (1, attention.num_heads, 6, attention.qk_head_dim)
        assert model.layers[0].mlp.mlp_neurons.shape[-1] == model.layers[0].mlp.intermediate_size


def test_a_native_child_named_output_stays_reachable():
    model = load("tiny:llama")
    model._module.model.layers[1].mlp.output = torch.nn.Identity()
    assert isinstance(model.layers[1].mlp.output._module, torch.nn.Identity)
    with model.trace(IDS):
        assert torch.equal(model.layers[1].mlp.input, model.layers[1].mlp_input)


def test_native_input_and_output():
    model = tiny("gpt2")
    expected = plain(model, IDS, {"x": model.layers[1]._module})
    with model.trace(IDS):
        entering = model.transformer.h[1].input
        assert torch.equal(entering, model.layers[1].layer_input)
        assert torch.equal(model.transformer.h[1].output, expected["x"])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_bound_anew(copied):
    for model_type in ("llama", "falcon"):
        model = tiny(model_type)
        with model.trace(IDS):
            pattern = model.layers[1].self_attn.attention_probabilities
        other = copied(model)
        assert other._module is not model._module
        with other.trace(IDS):
            assert torch.equal(other.layers[1].self_attn.attention_probabilities, pattern)
            other.layers[1].layer_output *= 0
        with left_alone(model), model.trace("ab"), other.trace("ab"):
            other.layers[0].layer_output
            model.layers[0].layer_output


def test_an_attribute_error_of_the_models_own_is_not_taken_for_a_missing_name():
    model = tiny()

    def broken(*_):
        raise AttributeError("the model's own")

    handle = model.layers[1]._module.register_forward_pre_hook(broken)
    try:
        with model.trace(IDS) as run:
            with pytest.raises(AttributeError, match="the model's own"):
                model.layers[2].layer_output
            assert run._run.finished
    finally:
        handle.remove()
    assert "_raised" not in vars(model.layers[2])
