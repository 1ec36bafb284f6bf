"""Sweeps of a model on which an edit stands: each number is that of a whole forward under the edit, by the quick way."""

from __future__ import annotations

import pytest
import torch
from tests.edits.every_edit import PROMPTS, every_edit, model_of
from tests.patching.naive import CLEAN, CORRUPTED, by_head, by_position, metric
from tests.tiny_models import left_alone, tiny

from nnatlas import edits
from nnatlas.patching import activation_patching, attribution_patching, path_patching
from nnatlas.patching.ways import ABOVE, CAUSAL

POSITIONS = range(2, 12, 3)
EXPECTED = {"llama": CAUSAL, "apex-1": CAUSAL, "bloom": CAUSAL, "gpt_oss": CAUSAL, "mamba2": ABOVE}


@pytest.mark.parametrize("family", EXPECTED)
def test_every_edit_stands_under_a_sweep(family):
    """Edits that keep notes between two values, that draw, that count positions: all of them, and no fall back."""
    model = model_of(family)
    with left_alone(model):
        for name, edit in every_edit(family).items():
            if name == "steer new":
                continue  # nothing is new in a sweep
            with edit:
                found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
                expected = by_position(model, CLEAN, CORRUPTED, "layer_output", POSITIONS)
            assert found.way == EXPECTED[family].words, name
            assert (found.values[0][:, list(POSITIONS)] - expected).abs().max() < 1e-4, name
            assert expected.std() > 1e-3, name


@pytest.mark.parametrize("value, path", [("layer_input", "layer_input"), ("mlp_output", "mlp.mlp_output")])
def test_a_skipped_block_passes_on_what_was_patched_at_its_entry(value, path):
    """The note that a skip takes where a block is entered is of the rows that are patched there."""
    model = tiny("llama")
    with edits.skip_layers(model, [0, 2]):
        found = activation_patching(model, CLEAN, CORRUPTED, value, metric=metric)
        expected = by_position(model, CLEAN, CORRUPTED, path, range(2, 12))
    assert found.way == CAUSAL.words
    assert (found.values[0][:, 2:] - expected).abs().max() < 1e-4


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
def test_heads_ablated_under_a_sweep_of_heads(how):
    model = tiny("llama")
    with edits.ablate_heads(model, {1: [0, 2], 3: 1}, how=how, using=PROMPTS, seed=5):
        found = activation_patching(model, CLEAN, CORRUPTED, "attention_premix", "layer x head", metric)
        expected = by_head(model, CLEAN, CORRUPTED, "self_attn.attention_premix", 2)
    assert found.way == CAUSAL.words
    assert (found.values[0] - expected).abs().max() < 1e-4


def test_what_is_drawn_is_drawn_alike_for_all_rows_of_a_sweep():
    """Resampled values by place in the row, so that two pairs together are what each is alone, and the plain way too."""
    model, other = tiny("llama"), (CLEAN.flip(0), CORRUPTED.flip(0))
    with edits.ablate_layers(model, [1], how="resample", using=PROMPTS):
        both = activation_patching(
            model, [CLEAN.tolist(), other[0].tolist()], [CORRUPTED.tolist(), other[1].tolist()], metric=metric
        )
        plain = activation_patching(model, *other, metric=metric, plain=True)
        alone = activation_patching(model, *other, metric=metric)
    assert both.way == alone.way == CAUSAL.words
    torch.testing.assert_close(both.values[1], alone.values[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(plain.values, alone.values, atol=1e-4, rtol=0)
    assert (alone.values - activation_patching(model, *other, metric=metric).values).abs().max() > 1e-2


def test_an_edit_inside_mlps_keeps_their_tokens_in_their_places():
    """Packed, the tokens of an MLP are one long row: an edit by position would be lost there without a word."""
    model = tiny("llama")
    with edits.ablate(model, "layers.3.mlp.mlp_output", positions=-1):
        found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
        expected = by_position(model, CLEAN, CORRUPTED, "layer_output", range(2, 12))
    assert found.way == CAUSAL.words and found.note == ""
    assert (found.values[0][:, 2:] - expected).abs().max() < 1e-4


def test_an_edit_beyond_the_blocks_is_seen():
    model = tiny("llama")
    with model.editing("final_norm_output", lambda value, call: value * torch.linspace(0.2, 1.5, value.shape[-1])):
        found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
        expected = by_position(model, CLEAN, CORRUPTED, "layer_output", range(2, 12))
    assert found.way == CAUSAL.words
    assert (found.values[0][:, 2:] - expected).abs().max() < 1e-4


def test_paths_and_estimates_are_of_the_edited_model():
    model = tiny("llama")
    with edits.ablate_heads(model, {1: 0}, how="resample", using=PROMPTS):
        readers = ["layers.*.self_attn.attention_output", "layers.*.mlp.mlp_output", "logits"]
        paths = path_patching(model, CLEAN, CORRUPTED, "mlp_output", readers, "layer x position", metric)
        whole = activation_patching(model, CLEAN, CORRUPTED, "mlp_output", metric=metric)
        estimate = attribution_patching(model, CLEAN, CORRUPTED, "mlp_output", metric=metric, steps=8)
    assert (paths.values - whole.values).abs().max() < 1e-4
    assert estimate.agreement(whole).correlation > 0.5 and float(estimate.clean) == pytest.approx(float(whole.clean))
