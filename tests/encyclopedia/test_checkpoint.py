"""What is measured of a checkpoint, held against the same numbers computed by hand."""

from __future__ import annotations

import pytest
import torch

import nnatlas
from nnatlas.encyclopedia import checkpoint as page
from nnatlas.encyclopedia.charts import HEIGHT, Chart, Series, short
from nnatlas.errors import InputError


@pytest.fixture(scope="module")
def model():
    return nnatlas.load("apex-1")


def chart(found: page.Checkpoint, title: str) -> Chart:
    return next(one for one in found.charts if one.title == title)


def test_stream_lengths_and_sink_shares(checkpoint, model):
    with model.trace(page.TEXT):
        probabilities = model.layers[4].self_attn.attention_probabilities.clone()
        stream = model.layers[4].layer_output.clone()
    lengths = stream[0].norm(dim=-1)
    first, others = chart(checkpoint, "Length of the stream").series
    assert first.values[4] == pytest.approx(lengths[0].item(), rel=1e-4)
    assert others.values[4] == pytest.approx(lengths[1:].median().item(), rel=1e-4)
    (share,) = chart(checkpoint, "Attention to position 0").series
    assert share.values[4] == pytest.approx(probabilities[0, :, 1:, 0].mean().item(), rel=1e-4)


def test_contributions_are_measured_beside_the_blocks_input(checkpoint, model):
    with model.trace(page.TEXT):
        x = model.layers[2].layer_input[0].norm(dim=-1)
        added = model.layers[2].mlp.mlp_output[0].norm(dim=-1)
    _, mlp = chart(checkpoint, "What a block adds, beside its input").series
    assert mlp.values[2] == pytest.approx((added / x)[1:].median().item(), rel=1e-4)


def test_gains_are_the_weights(checkpoint, model):
    gain = next(one for one in checkpoint.gains if one.role == "attention_norm")
    weights = torch.stack([block.norm1.weight for block in model._module.model.blocks])
    assert gain.means == pytest.approx(weights.mean(-1).tolist(), rel=1e-5)
    assert (gain.least, gain.most) == (pytest.approx(weights.min().item()), pytest.approx(weights.max().item()))


def test_next_tokens_are_the_models_own(checkpoint, model):
    with model.trace(page.TEXT):
        best = model.next_token_probs[0].max().item()
    assert checkpoint.next_tokens[0][1] == pytest.approx(best, rel=1e-4)
    assert checkpoint.tokens == len(model.tokenizer(page.TEXT).input_ids)


def test_a_text_of_one_word_is_too_short(model):
    with pytest.raises(InputError, match="at least 4 tokens"):
        page.measure(model, "a")


def test_a_model_without_attention_has_no_sink_chart():
    found = page.measure("tiny:mamba2", "a text of some length")
    assert [one.title for one in found.charts] == ["Length of the stream", "What a block adds, beside its input"]
    assert found.charts[1].series[0].name == "mixer"


def test_axes_are_round_and_hold_every_number():
    plain = Chart("", "", (Series("", (0.03, 0.15, None)),))
    assert [label for _, label in plain.ticks] == ["0", "0.05", "0.1", "0.15"]
    far = Chart("", "", (Series("", (3.0, 4000.0)),))
    assert [label for _, label in far.ticks] == ["1", "10", "100", "1,000", "10,000"]
    for one in (plain, far):
        heights = [one.y(value) for value in one.series[0].values if value is not None]
        assert all(0 < height < HEIGHT for height in heights) and heights == sorted(heights, reverse=True)
    assert plain.x(0) < plain.x(1) < plain.x(2)


def test_numbers_are_short():
    assert [short(value) for value in (None, 0, 0.000123, 1.5, 123456.7)] == ["", "0", "0.000123", "1.5", "123,457"]
