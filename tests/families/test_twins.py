"""Rows that are another family's but for what they name."""

from __future__ import annotations

import pytest

from nnatlas import families
from nnatlas.errors import PlaceError
from nnatlas.families._shapes import LLAMA, absent, kind

FIRST = LLAMA.but(
    name="first",
    norm="base.last",
    passes="base.wpe",
    counts_positions=True,
    breaks={"head": "a reason"},
    tiny={"a": 1},
    kinds=(kind("wide", "has wide", o_proj="out", mlp_norm="norm_2"),),
)
TWINS = {row.name: row for row in families.rows().values() if row.kin}


def test_a_twin_is_the_other_row_but_for_what_is_given():
    made = FIRST.twin(name="second", covers="second third", o_proj="dense", tiny={"a": 2}, notes={"layer_mid": "so"})
    assert made.kin == "first" and made.covers == ("second", "third") and made.shape == FIRST.shape == "llama"
    assert {key for key in made.cells if made.cells[key] != FIRST.cells[key]} == {"o_proj"}
    assert made.changed == {"norm", "o_proj"} and made.tiny == {"a": 2} and made.notes == {"layer_mid": "so"}
    assert (made.counts_positions, made.looped) == (True, False)
    assert made.passes == FIRST.passes and made.breaks == FIRST.breaks and made.kinds == FIRST.kinds
    assert made.summary == "Rows that are another family's but for what they name."  # this file's, not the language's


def test_a_twin_may_change_some_cells_of_a_kind():
    made = FIRST.twin(name="second", kinds=(kind("wide", "has wider", o_proj=absent("none")),))
    wide = next(one for one in made.kinds if one.name == "wide")
    assert wide.when == "has wider" and wide.cells == {"o_proj": absent("none"), "mlp_norm": "norm_2"}


def test_there_is_no_twin_of_a_twin():
    with pytest.raises(PlaceError, match="second is itself a twin, of first"):
        FIRST.twin(name="second").twin(name="third")


@pytest.mark.parametrize("name", sorted(TWINS))
def test_every_twin_takes_after_a_row_that_exists_and_covers_other_types(name):
    row = TWINS[name]
    other = next(one for one in families.rows().values() if one.name == row.kin)
    assert not other.kin and not set(row.covers) & set(other.covers)
    assert row.summary != other.summary
