"""A growing run: rows join (or leave) where they are assigned, and each is what it would have been from the start."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas.errors import LayoutError


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "mixtral"])
def test_rows_that_join_at_a_block_compute_as_others_do(name):
    model = tiny(name)
    torch.manual_seed(0)
    with torch.no_grad(), left_alone(model):
        with model.trace(IDS) as alone:
            noise = torch.randn_like(model.layers[1].layer_output)
            model.layers[1].layer_output += noise
            edited = model.logits
        with model.trace(IDS) as plain:
            expected = model.logits
        with model.trace(IDS, growing=True) as run:
            stream = run.layers[1].layer_output
            run.layers[1].layer_output = torch.cat([stream, stream + noise])
            assert run.layers[1].layer_output.shape == (2, *stream.shape[1:])
            assert run.layers[2].self_attn.attention_probabilities.shape[0] == 2
            logits = run.logits
    assert alone.output is not None and plain.output is not None
    torch.testing.assert_close(logits[:1], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits[1:], edited, atol=1e-5, rtol=1e-4)


def test_heads_are_told_apart_with_the_new_number_of_rows():
    model = tiny("llama")
    with torch.no_grad(), model.trace(IDS, growing=True) as run:
        run.layers[1].layer_input = run.layers[1].layer_input.expand(3, -1, -1)
        premix = run.layers[1].self_attn.attention_premix
        assert premix.shape[0] == 3
        premix[2, :, 1] = 0
        logits = run.logits
    assert torch.equal(logits[0], logits[1]) and not torch.allclose(logits[1], logits[2])


def test_without_the_word_rows_are_fixed():
    model = tiny("llama")
    with pytest.raises(LayoutError, match=r"layer_output is \[1, 6, 64\]"), model.trace(IDS) as run:
        run.layers[1].layer_output = torch.cat([run.layers[1].layer_output] * 2)


def test_only_rows_are_free():
    model = tiny("llama")
    with pytest.raises(LayoutError, match="hidden_size is 64"), model.trace(IDS, growing=True) as run:
        run.layers[1].layer_output = run.layers[1].layer_output[..., :5]


def test_positions_may_be_left_out_where_the_sum_with_others_allows_it():
    model = tiny("llama")
    with torch.no_grad(), model.trace(IDS):
        expected = model.logits
    with torch.no_grad(), model.trace(IDS, growing=True) as run:
        run.layers[-1].mlp_input = run.layers[-1].mlp_input[:, -1:]
        assert run.layers[-1].mlp.mlp_output.shape == (1, 1, 64)
        logits = run.logits
    torch.testing.assert_close(logits[:, -1], expected[:, -1], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(logits[:, 0], expected[:, 0], atol=1e-2)
