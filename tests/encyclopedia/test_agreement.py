"""A row that says something else than was measured stops the build, by page and value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnatlas import families
from nnatlas.encyclopedia import agreement, measurements
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.site import build
from nnatlas.errors import LawBroken
from nnatlas.places import absent


def test_every_page_agrees_with_what_was_measured():
    found = {name: list(agreement.disagreements(name, kept(name))) for name in measurements.types()}
    assert {name: said for name, said in found.items() if said} == {}


WRONG = {
    "block.layer_mid": ("llama", {"layer_mid": "mlp > in"}),
    "mlp.mlp_output": ("granite", {"mlp_output": "mlp > out"}),
    "self_attn.attention_output": ("exaone4", {"attention_output": "self_attn > out"}),
    "block.attention_norm_output": ("cohere2", {"attention_norm_output": absent("it has none")}),
    "self_attn.attention_premix": ("gpt2", {"attention_premix": "o_proj > out : batch seq (num_heads head_dim)"}),
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_cell_stops_the_build_naming_page_and_value(key, monkeypatch, tmp_path):
    model_type, cells = WRONG[key]
    row = families.rows()[model_type]
    wrong = row.remade(cells={**row.cells, key: next(iter(cells.values()))})
    for name in row.covers:
        monkeypatch.setitem(families.rows(), name, wrong)
    with pytest.raises(LawBroken, match=rf"page family/{model_type}, value {key}: the row reads it at"):
        build(tmp_path, [model_type])
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_is_no_value_shows_too(monkeypatch):
    row = families.rows()["helium"]
    monkeypatch.setitem(families.rows(), "helium", row.remade(readout="norm | lm_head | * logit_scale"))
    assert [said.partition(": ")[0] for said in agreement.disagreements("helium", kept("helium"))] == [
        "page family/helium, the row as a whole"
    ] * 2


def test_a_broken_law_names_its_value(monkeypatch):
    found = measurements.measured("llama")
    broken = replace(found, failures=("residual: block.layer_output at layers[0]: the sum is off by 60%",))
    monkeypatch.setattr(measurements, "measured", lambda _: broken)
    (said,) = agreement.disagreements("llama", kept("llama"))
    assert said.startswith("page family/llama, value block.layer_output: the law is broken")


def test_what_has_no_measurement_has_no_page(monkeypatch):
    monkeypatch.setattr(measurements, "measured", lambda _: None)
    assert list(agreement.disagreements("llama", kept("llama"))) == ["page family/llama: the type has no measurement"]
