"""Probing: what stands in the token is read at once, what does not needs attention, and shuffled labels are not read."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch
from tests.tiny_models import left_alone, tiny

from nnatlas.errors import InputError
from nnatlas.readouts import probe

pytest.importorskip("sklearn")
PROMPTS = ["".join(letters) for letters in itertools.product("pq", "rstu", "vwxyz")]  # 40, of different letters
LAST = [prompt[-1] in "vw" for prompt in PROMPTS]
FIRST = [prompt[0] for prompt in PROMPTS]


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def test_what_the_last_token_says_is_read_at_once_and_nonsense_is_not(model):
    with left_alone(model):
        found = probe(model, PROMPTS, LAST, ["layers.0.layer_input", "layers.*.layer_output"])
    assert found.values == ("layers.0.layer_input", *(f"layers.{at}.layer_output" for at in range(4)))
    assert found.scores.shape == found.controls.shape == (5, 5) and found.kind == "accuracy"
    assert found.chance == 0.6
    assert found.scores[0].mean() == 1.0
    assert found.controls.mean() < 0.7 and found.selectivity[0] > 0.3


def test_what_another_token_says_is_not_in_the_embedding(model):
    found = probe(model, PROMPTS, FIRST, ["layers.0.layer_input", "layers.0.self_attn.attention_head_outputs"])
    assert found.scores[0].mean() < 0.75 < 0.9 < found.scores[1].mean()
    assert found.best == "layers.0.self_attn.attention_head_outputs"
    at_the_first = probe(model, PROMPTS, FIRST, "layers.0.layer_input", position=1)  # 0 is the begin token
    assert at_the_first.scores.mean() == 1.0
    mean = probe(model, PROMPTS, FIRST, "layers.0.layer_input", position=None)
    assert mean.scores.mean() > 0.9


def test_vectors_are_of_real_positions(model):
    prompts = [*PROMPTS[:10], *(prompt + "z" for prompt in PROMPTS[:10])]
    found = probe(model, prompts, [0] * 10 + [1] * 10, "layers.1.layer_output", rows=7, position=1)
    with model.trace(prompts[3]):
        alone = model.layers[1].layer_output[0, 1]
    torch.testing.assert_close(found.vectors[0][3], alone, atol=1e-4, rtol=1e-4)


def test_numbers_are_regressed(model):
    numbers = [float("vwxyz".index(prompt[-1])) for prompt in PROMPTS]
    found = probe(model, PROMPTS, numbers, "layers.0.layer_input")
    assert found.kind == "R²" and found.scores.mean() > 0.9 and found.controls.mean() < 0.2


def test_a_fitted_probe_predicts(model):
    found = probe(model, PROMPTS, LAST, "layers.0.layer_input")
    fitted = found.fit("layers.0.layer_input")
    assert (fitted.predict(found.vectors[0].numpy()) == LAST).all()
    with pytest.raises(InputError, match=r"'x' was not probed; there is layers\.0\.layer_input"):
        found.fit("x")


def test_its_grid(model):
    grid = probe(model, PROMPTS, LAST, ["layers.0.layer_input"]).grid()
    assert grid.columns.labels == ("score", "control", "selectivity") and grid.values[0][0] == 1.0
    assert "scores 0.600" in grid.note and "over 5 folds" in grid.hover[0][0]


def test_what_is_wrong_is_said(model, monkeypatch):
    with pytest.raises(InputError, match="2 labels for 40 prompts"):
        probe(model, PROMPTS, [0, 1])
    with pytest.raises(InputError, match=r"5 folds need two classes or more.*1 39 times, 0 1 times"):
        probe(model, PROMPTS, [1] * 39 + [0])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"sklearn: pip install 'nnatlas\[experiments\]'"):
        probe(model, PROMPTS, LAST)
