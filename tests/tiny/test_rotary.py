"""Rotary parameters for small heads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nnatlas.tiny.rotary import fit_rotary, share_out


@given(st.integers(0, 64), st.lists(st.integers(1, 64), min_size=1, max_size=5))
def test_shares_add_up_and_miss_their_proportion_by_less_than_one(total, weights):
    parts = share_out(total, weights)
    assert sum(parts) == total
    assert all(abs(part - total * weight / sum(weights)) < 1 for part, weight in zip(parts, weights, strict=True))


def test_sections_and_long_context_rules_fit_the_head_in_every_set():
    sets = {
        "full_attention": {"rope_type": "default", "mrope_section": [16, 24, 24]},
        "sliding_attention": {"rope_type": "llama3", "original_max_position_embeddings": 8192},
    }
    fit_rotary(sets, 16)
    assert sets["full_attention"]["mrope_section"] == [2, 3, 3]
    assert sets["sliding_attention"]["original_max_position_embeddings"] < 256


def test_only_part_of_a_head_is_rotated_where_a_type_has_the_choice():
    parameters = {"rope_type": "longrope", "partial_rotary_factor": 1.0, "long_factor": [1.0] * 48}
    fit_rotary(parameters, 24)
    assert parameters["partial_rotary_factor"] == 0.5
    assert len(parameters["long_factor"]) == 6
