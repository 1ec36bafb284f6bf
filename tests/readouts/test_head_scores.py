"""Head scores: exact on patterns made by hand, blind to padding, and they find the heads that are known to be there."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import left_alone, tiny

import nnatlas
from nnatlas.errors import InputError, Unavailable
from nnatlas.readouts import head_scores, repeated_random_tokens
from nnatlas.readouts.head_scores import SCORES, _keys, _scored


def attending(keys, seq):
    """A pattern `1 heads seq seq` with one head for each offset: it attends that far back, or to the first key."""
    pattern = torch.zeros(1, len(keys), seq, seq)
    for head, back in enumerate(keys):
        for query in range(seq):
            pattern[0, head, query, max(0, query - back)] = 1
    return pattern


def test_heads_made_by_hand_score_one_and_zero():
    ids = torch.tensor([[9, 1, 2, 3, 1, 2, 3]])  # a begin token, then three tokens twice
    scores = _scored(attending([1, 3, 2], 7), _keys(ids, torch.ones_like(ids).bool()))
    # one back, the same token, the token after it; the second half has three queries of each
    expected = torch.tensor([[1.0, 1 / 6, 1 / 6], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(scores, expected)


def test_every_earlier_occurrence_counts():
    ids = torch.tensor([[5, 6, 5, 7, 5]])
    same, after = _keys(ids, torch.ones_like(ids).bool())[1:, 0]
    assert same.nonzero().tolist() == [[2, 0], [4, 0], [4, 2]]
    assert after.nonzero().tolist() == [[2, 1], [4, 1], [4, 3]]


def test_padding_does_not_count():
    ids, mask = torch.tensor([[0, 0, 5, 6, 5]]), torch.tensor([[0, 0, 1, 1, 1]]).bool()
    previous, same, after = (keys[0].nonzero().tolist() for keys in _keys(ids, mask))
    assert previous == [[3, 2], [4, 3]] and same == [[4, 2]] and after == [[4, 3]]
    model = tiny("llama")
    both = head_scores(model, ["abcabcabc", "aa"])
    weights = model.collect("aa", "layers.*.self_attn.attention_probabilities")
    alone = head_scores(model, "abcabcabc")
    found = model.collect("abcabcabc", "layers.*.self_attn.attention_probabilities")
    name = "layers.1.self_attn.attention_probabilities"
    steps = [found[name][0, 2].diagonal(-1), weights[name][0, 2].diagonal(-1)]
    assert float(both["previous token"][1, 2]) == pytest.approx(float(torch.cat(steps).mean()), abs=1e-5)
    assert float(alone["previous token"][1, 2]) == pytest.approx(float(steps[0].mean()), abs=1e-5)


def test_random_tokens_are_different_plain_and_said_twice():
    model = tiny("llama")
    ids = repeated_random_tokens(model, length=20, rows=3)
    assert ids.shape == (3, 41) and (ids[:, 0] == model.tokenizer.bos_token_id).all()
    assert torch.equal(ids[:, 1:21], ids[:, 21:])
    assert all(len(set(row)) == 20 for row in ids[:, 1:21].tolist())
    assert not set(ids[:, 1:].flatten().tolist()) & set(model.tokenizer.all_special_ids)
    assert torch.equal(ids, repeated_random_tokens(model, length=20, rows=3))
    assert not torch.equal(ids, repeated_random_tokens(model, length=20, rows=3, seed=1))
    with pytest.raises(InputError, match="1000 different tokens of a vocabulary of"):
        repeated_random_tokens(model, length=1000)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "cohere2", "bloom", "deepseek_v3", "gpt_oss", "granitemoehybrid"])
def test_scores_on_any_model(name):
    model = tiny(name)
    with left_alone(model):
        found = head_scores(model, length=6, rows=2)
    assert found.values.shape == (3, model.num_layers, 4)
    real = found.values[~found.values.isnan()]
    assert len(real) == 3 * 4 * (model.num_layers - len(found.missing)) and real.min() >= 0 and 0 < real.max() <= 1


def test_without_attention_it_says_why():
    with pytest.raises(Unavailable, match="no block of this model has an attention pattern"):
        head_scores(tiny("mamba"), length=4)
    found = head_scores(tiny("granitemoehybrid"), length=4)
    assert set(found.missing) == {0, 2} and found["induction"][0].isnan().all()


def test_how_they_are_shown():
    found = head_scores(tiny("llama"), length=4)
    assert list(found.grid()) == list(SCORES)
    best = found.top(2, "previous token")
    assert best[0][2] == pytest.approx(float(found["previous token"].max())) and best[0][2] >= best[1][2]
    with pytest.raises(InputError, match="no score 'copying'; there are previous token"):
        found["copying"]


def test_the_bundled_models_induction_head_is_found():
    """Block 3, head 0, as the model's card measures it with code of its own."""
    found = head_scores(nnatlas.load("apex-1"), length=30, rows=2)["induction"]
    assert found[3, 0] > 0.6
    assert found.median() < 0.1


@pytest.mark.real
def test_smollm2_has_induction_and_previous_token_heads(smollm2_folder):
    found = head_scores(nnatlas.load("smollm2"), length=50, rows=1)
    assert [score > 0.4 for *_, score in found.top(5)] == [True] * 5
    assert found.top(1, "previous token")[0][2] > 0.6
