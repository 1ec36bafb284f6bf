"""Positions among real tokens, whatever the padding, and the prompts they are of."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import tiny

from nnatlas.errors import InputError
from nnatlas.model.positions import real_positions
from nnatlas.model.prompts import read

MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])


@pytest.mark.parametrize(
    "at, expected", [(0, [2, 0, 0, 1]), (1, [3, 1, 1, 3]), (2, [4, 2, 2, 4]), (-1, [4, 4, 2, 4]), (-3, [2, 2, 0, 1])]
)
def test_positions_count_real_tokens(at, expected):
    assert real_positions(MASK, at).tolist() == expected


@pytest.mark.parametrize("at", [3, -4])
def test_a_row_that_is_too_short_is_named(at):
    with pytest.raises(InputError, match=f"position {at} of row 0, which has 3 tokens"):
        real_positions(MASK, at)


def test_prompts_know_their_real_tokens():
    found, prompts = read(tiny("llama"), ["The tower", "Hi"], ["layers.1.layer_output"])
    assert list(found) == ["layers.1.layer_output"] and not found["layers.1.layer_output"].requires_grad
    assert len(prompts) == 2 and prompts.real(1) == [7, 8, 9]
    assert prompts.axis(1).labels == ("<|begin|>", "H", "i")


def test_where_a_model_takes_no_mask_all_is_real():
    found, prompts = read(tiny("cpmant"), torch.arange(20, 26)[None], ["layers.1.layer_output"])
    assert prompts.mask.all() and prompts.mask.shape == found["layers.1.layer_output"].shape[:2]
    assert prompts.axis(0).labels[0] == ""  # a learned prompt stands in front: ids name no positions
