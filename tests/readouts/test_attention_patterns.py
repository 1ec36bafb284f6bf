"""Attention patterns: the model's own weights, of real tokens only, under any implementation, and not in the model's way."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import left_alone, tiny

from nnatlas.errors import InputError, Unavailable
from nnatlas.model import load
from nnatlas.readouts import attention_patterns

PROMPTS = ["The tower", "Hi"]


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def eager_weights(prompts):
    """What transformers itself hands out on an eager load of the same weights."""
    eager = load("tiny:llama", attn_implementation="eager")  # of its own: transformers' recording stays on a model
    eager._module.load_state_dict(tiny("llama")._module.state_dict())
    batch = eager._prepare(prompts, {})
    with torch.no_grad():
        return eager._module(**batch, output_attentions=True).attentions


def test_patterns_are_the_models_own(model):
    found, expected = attention_patterns(model, PROMPTS), eager_weights(PROMPTS)
    assert list(found.patterns) == [0, 1, 2, 3]
    real = found.prompts.real(1)
    for layer in range(4):
        torch.testing.assert_close(found[layer][0], expected[layer][0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found[layer][1][:, real], expected[layer][1][:, real], atol=1e-5, rtol=1e-4)


def test_a_rows_weights_are_shares(model):
    weights = attention_patterns(model, "The tower", 2)[2]
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 10))
    assert weights.triu(1).abs().max() == 0  # no later key
    sinks = attention_patterns(tiny("gpt_oss"), "The tower", -1)[3]
    assert (sinks.sum(-1) < 0.999).any()


def test_layers_are_chosen_and_heads_averaged(model):
    found = attention_patterns(model, "Hi", [-1, 0])
    assert list(found.patterns) == [0, 3]
    averaged = attention_patterns(model, "Hi", 3, average=True)
    torch.testing.assert_close(averaged[3][:, 0], found[3].mean(1))
    with pytest.raises(InputError, match="no pattern of layer 2; there are 0, 3"):
        found[2]
    with pytest.raises(InputError, match="layer 4 of 4"):
        attention_patterns(model, "Hi", 4)


def test_blocks_without_attention_are_left_out():
    found = attention_patterns(tiny("granitemoehybrid"), "Hi")
    assert list(found.patterns) == [1, 3]
    with pytest.raises(Unavailable):
        attention_patterns(tiny("mamba"), "Hi")


def test_its_grid_has_tokens_on_both_axes_and_no_padding(model):
    found = attention_patterns(model, PROMPTS)
    pages = found.grid(1)
    assert list(pages)[:5] == ["0.0", "0.1", "0.2", "0.3", "1.0"] and len(pages) == 16
    one = pages["1.0"]
    assert one.rows.labels == one.columns.labels == ("<|begin|>", "H", "i")
    assert (one.rows.name, one.columns.name) == ("query", "key")
    assert one.values[2][1] == pytest.approx(float(found[1][1, 0, -1, -2]))
    assert (one.scale.low, one.scale.high) == (0, 1)
    assert len(found.grid()) == 32 and "1: 3.2" in found.grid()
    assert list(attention_patterns(model, "Hi", average=True).grid()) == ["0", "1", "2", "3"]


def test_the_model_is_left_as_it_was(model):
    with left_alone(model):
        attention_patterns(model, "Hi", 1)
