"""Pairs of one length share forwards, and each is what it is alone; pairs of several lengths go where there are no positions."""

from __future__ import annotations

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED, metric
from tests.tiny_models import tiny

from nnatlas.errors import InputError
from nnatlas.patching import LogitDifference, activation_patching, attribution_patching, path_patching, study, ways
from nnatlas.patching.ways import ABOVE, CAUSAL, PLAIN

PAIRS = [
    (CLEAN, CORRUPTED),
    (CLEAN.flip(0), CORRUPTED.flip(0)),
    (torch.cat([CLEAN[:7], CLEAN[:5]]), torch.cat([CLEAN[:7], CORRUPTED[:5] + 1])),  # seven shared in front
]
SWEEPS = [
    (activation_patching, {}),
    (activation_patching, {"value": "attention_premix", "over": "layer x position x head"}),
    (attribution_patching, {"steps": 3}),
    (path_patching, {"sender": "mlp_output", "over": "layer x position"}),
]


def lists(pairs):
    return [clean.tolist() for clean, _ in pairs], [corrupted.tolist() for _, corrupted in pairs]


@pytest.mark.parametrize("together", [1024, 24])
@pytest.mark.parametrize("sweep, asked", SWEEPS, ids=lambda one: getattr(one, "__name__", ""))
def test_together_they_are_what_each_is_alone(sweep, asked, together, monkeypatch):
    monkeypatch.setattr(study, "TOGETHER", together)
    model = tiny("llama")
    found = sweep(model, *lists(PAIRS), metric=metric, **asked)
    assert found.values.shape[0] == len(PAIRS)
    for at, pair in enumerate(PAIRS):
        alone = sweep(model, *pair, metric=metric, **asked)
        torch.testing.assert_close(found.values[at], alone.values[0], atol=1e-4, rtol=0)
        ends = [[float(one.clean[place]), float(one.corrupted[place])] for one, place in ((found, at), (alone, 0))]
        assert ends[0] == pytest.approx(ends[1], abs=1e-4)


@pytest.mark.parametrize(
    "name, way",
    [("gpt2", CAUSAL), ("bloom", CAUSAL), ("gemma2", CAUSAL), ("gpt_oss", CAUSAL), ("mixtral", CAUSAL),
     ("zamba", ABOVE), ("mamba2", ABOVE), ("gemma3n_text", PLAIN)],
)  # fmt: skip
def test_on_every_structure(name, way, monkeypatch):
    monkeypatch.setattr(ways, "TOKENS", 100)
    model = tiny(name)
    for value in ("layer_output", "layer_input"):
        found = activation_patching(model, *lists(PAIRS), value, metric=metric)
        assert found.way == way.words
        for at, pair in enumerate(PAIRS):
            alone = activation_patching(model, *pair, value, metric=metric)
            torch.testing.assert_close(found.values[at], alone.values[0], atol=1e-4, rtol=0)


def test_they_share_forwards():
    model, calls = tiny("llama"), []
    pairs = [PAIRS[0], (CLEAN + 50, CORRUPTED + 50), (CLEAN + 90, CORRUPTED + 90)]
    hook = model.layers[0]._module.register_forward_hook(lambda *_: calls.append(1))
    try:
        counts = []
        for some in (pairs[:1], pairs):
            calls.clear()
            activation_patching(model, *lists(some), "attention_premix", "layer x head", metric=metric)
            counts.append(len(calls))
    finally:
        hook.remove()
    assert counts == [3, 3]  # the two runs as they are, and the sweep


def test_each_pair_has_its_own_answers():
    model = tiny("llama")
    both = activation_patching(model, *lists(PAIRS[:2]), metric=LogitDifference([5, 9], [8, 30]))
    for at, (answer, wrong) in enumerate(((5, 8), (9, 30))):
        alone = activation_patching(model, *PAIRS[at], metric=LogitDifference(answer, wrong))
        torch.testing.assert_close(both.values[at], alone.values[0], atol=1e-4, rtol=0)


def test_pairs_of_several_lengths_have_heads_and_layers_in_common():
    model = tiny("llama")
    pairs = [PAIRS[0], (CLEAN[:8], CORRUPTED[:8]), PAIRS[1]]
    found = activation_patching(model, *lists(pairs), "attention_premix", "layer x head", metric)
    assert found.values.shape == (3, 4, 4)
    for at, pair in enumerate(pairs):
        alone = activation_patching(model, *pair, "attention_premix", "layer x head", metric)
        torch.testing.assert_close(found.values[at], alone.values[0], atol=1e-4, rtol=0)
    with pytest.raises(InputError, match="pairs of 8 and 12 tokens"):
        activation_patching(model, *lists(pairs), metric=metric)
