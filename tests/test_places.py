"""The place language: residual identities, and what they say when they cannot be read."""

from __future__ import annotations

import pytest

from nnatlas.errors import PlaceError
from nnatlas.places import Factor, identity


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
