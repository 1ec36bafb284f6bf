"""Pairs: one length, token for token, or both tokenisations in the error."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import tiny

from nnatlas.errors import InputError
from nnatlas.patching.pairs import pairs_of


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def test_texts_and_ids(model):
    pairs = pairs_of(model, "a cat", "a dog")
    assert len(pairs) == 1 and pairs.lengths == [6]
    assert pairs.first_difference(0) == 3
    assert pairs.labels() == ["<|begin|>", "a", " ", "c|d", "a|o", "t|g"]
    assert torch.equal(pairs_of(model, pairs.clean[0], pairs.corrupted[0]).clean[0], pairs.clean[0])


def test_lists(model):
    pairs = pairs_of(model, ["a cat", "a cow"], ["a dog", "a sow"])
    assert [len(ids) for ids in (*pairs.clean, *pairs.corrupted)] == [6] * 4
    assert [pairs.first_difference(pair) for pair in range(2)] == [3, 3]
    assert pairs.labels() == ["<|begin|>", "a", " ", "", "", ""]


def test_unequal_lengths_show_both(model):
    with pytest.raises(InputError) as caught:
        pairs_of(model, "cats", "dog")
    said = str(caught.value)
    assert "clean is 5 tokens, ['<|begin|>', 'c', 'a', 't', 's']" in said
    assert "corrupted is 4 tokens, ['<|begin|>', 'd', 'o', 'g']" in said


def test_padding_does_not_hide_an_unequal_pair(model):
    with pytest.raises(InputError, match=r"clean is 4 tokens.*corrupted is 5 tokens"):
        pairs_of(model, ["long one", "cat"], ["wide one", "dogs"])


def test_pairs_of_two_lengths(model):
    pairs = pairs_of(model, ["cat", "a cat", "cow", "cup"], ["dog", "a dog", "sow", "cap"])
    assert list(pairs.groups(100)) == [[0, 2, 3], [1]]
    assert list(pairs.groups(8)) == [[0, 2], [3], [1]]
    assert list(pairs.groups(1)) == [[0], [2], [3], [1]]
    with pytest.raises(InputError, match=r"pairs of 4 and 6 tokens.*over='layer' or 'layer x head'"):
        pairs.refuse_lengths()


def test_counterparts(model):
    with pytest.raises(InputError, match="2 clean prompts and 1 corrupted"):
        pairs_of(model, ["cat", "cow"], "dog")
    with pytest.raises(InputError, match=r"the same tokens: \['<\|begin\|>', 'c'"):
        pairs_of(model, "cat", "cat")
