"""The place language: cells, residual identities, the records they become, and what is said when they cannot be read."""

from __future__ import annotations

import pytest

from nnatlas import families
from nnatlas.errors import PlaceError
from nnatlas.families._shapes import LLAMA
from nnatlas.places import Factor, Side, identity, parse


def test_an_identity_is_a_sum_of_values_and_places_with_factors():
    *terms, whole = identity(
        "layer_input * block.a / sqrt(b) + extra_norm > out[1] * c + mlp_output = layer_output / block.d"
    )
    assert [term.value for term in terms] == ["layer_input", "", "mlp_output"]
    assert terms[0].factors == (Factor("block.a"), Factor("b", divides=True, root=True))
    assert terms[1].place is not None
    assert terms[1].place.words() == "the module extra_norm's output, element 1, times c"
    assert (whole.value, whole.factors) == ("layer_output", (Factor("block.d", divides=True),))


@pytest.mark.parametrize(
    "text, why",
    [
        ("layer_input + mlp_output", "an identity says what a sum makes"),
        (
            "layer_input + mlp_output twice = layer_output",
            r"a summand is a value's name(?s:.*)\n +mlp_output twice\n {15}\^",
        ),
        ("layer_input + norm > sideways = layer_output", "a place starts with"),
    ],
)
def test_what_cannot_be_read_is_shown_with_a_caret(text, why):
    with pytest.raises(PlaceError, match=why):
        identity(text)


@pytest.mark.parametrize("row", {row.name: row for row in families.rows().values()}.values(), ids=lambda row: row.name)
def test_every_cell_of_every_row_can_be_read(row):
    assert row.parsed() is row


def test_a_cell_that_cannot_be_read_is_named_with_its_file_as_soon_as_the_row_is_used():
    row = LLAMA.but(layer_output="block >> out")
    with pytest.raises(PlaceError, match=r"test_places\.py, cell block\.layer_output"):
        row.parsed()


def test_a_record_is_frozen_and_says_what_it_takes():
    side = Side("mlp", "out")
    assert side == Side(path="mlp", side="out", item=None)
    assert side != Side("mlp", "in")
    assert hash(side) == hash(Side("mlp", "out"))
    assert side.remade(item=1).words({}) == "the module mlp's output, element 1"
    with pytest.raises(AttributeError, match="frozen"):
        side.path = "other"
    with pytest.raises(TypeError, match="missing: side, unknown: none, in order: 1"):
        Side("mlp")
    with pytest.raises(TypeError, match="unknown: which"):
        Side("mlp", "out", which=2)


def test_a_factor_may_be_a_function_of_what_the_model_holds():
    place = parse("self_attn > out[0] * tanh(block.gate) / sqrt(block.count - 1)")
    assert place.factors == (
        Factor("block.gate", tanh=True),
        Factor("block.count", divides=True, root=True, less=1),
    )
    assert place.words().endswith("element 0, times tanh(block.gate), divided by sqrt(block.count - 1)")


def test_calls_for_each_image_are_one_place_and_say_which_patch_is_in_which() -> None:
    together = parse("attentions > scores").source
    assert (together.point, together.gathered) == ("scores", True)
    assert parse("attention > scores").source.gathered is False
    assert together.words({}) == "inside all attention calls together: their scores"
    assert parse("attentions > groups").words() == "which of the attention calls each patch is in"
    with pytest.raises(PlaceError, match="a place starts with"):
        parse("attention > groups")
