"""The rules on field names."""

from __future__ import annotations

import pytest

from nnatlas.tiny import fields
from nnatlas.tiny.fields import EXACTLY, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, TOWER_EXACTLY, factor, named, small

NAMES = [name for name in fields.FACTORS.split() if "*" not in name]


def test_no_factor_is_neutral_and_no_two_are_equal():
    values = [factor(name) for name in NAMES]
    assert all(0.6 <= value <= 0.85 or 1.2 <= value <= 1.45 for value in values)
    assert len(set(values)) == len(values) > 20


def test_a_list_of_factors_has_no_two_equal():
    assert len(set(small("ssm_multipliers", [1.0] * 5, EXACTLY))) == 5


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("hidden_size", 4096, HIDDEN),
        ("hidden_size", 32, 32),  # what is small already stays
        ("num_key_value_heads", 1, KV_HEADS),  # one group would hide a missing repeat
        ("num_key_value_heads", None, KV_HEADS),
        ("head_dim", None, HEAD_DIM),
        ("sliding_window", None, None),  # a type without a window keeps none
        ("final_logit_softcapping", None, 3.0),
        ("attn_logit_softcapping", None, None),  # only eager attention would apply it
        ("attention_bias", False, True),
        ("use_cache", False, False),
        ("num_nextn_predict_layers", 1, 0),
        ("intermediate_size", [16384, 16384], [112, 112]),
        ("rope_theta", 10000.0, 10000.0),
        ("chunk_size", -1, -1),
        ("channel_multiplier", (1, 2, 4), (1, 2, 4)),  # a shape, not a factor
        ("layer_types", ["full_attention"], ["full_attention"]),
    ],
)
def test_small(name, value, expected):
    assert small(name, value, EXACTLY) == expected


def test_a_tower_has_no_free_head_width():
    assert small("head_dim", 72, TOWER_EXACTLY) * small("num_attention_heads", 16, TOWER_EXACTLY) == HIDDEN
    assert HEAD_DIM * HEADS != HIDDEN


def test_a_star_stands_for_any_part_of_a_name():
    assert named("swa_intermediate_size", "*intermediate_size") and named("intermediate_size", "*intermediate_size")
    assert not named("intermediate_size_mlp", "*intermediate_size")
