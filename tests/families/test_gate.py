"""The gate: every decoder-only type of the installed transformers has a row, so that a new release shows what it adds."""

from __future__ import annotations

import pytest
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from nnatlas import families
from nnatlas.errors import UnsupportedFamily
from nnatlas.families._excluded import EXCLUDED
from nnatlas.families._since import REMADE
from nnatlas.model.load import load, wrap
from nnatlas.tiny import tiny_model

BUILDABLE = {
    *modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    *modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
}


def test_every_decoder_only_type_has_a_row() -> None:
    missing = sorted(BUILDABLE - EXCLUDED.keys() - families.rows().keys())
    assert not missing, (
        f"no row covers {', '.join(missing)}: write one, or say in families/_excluded.py why there is none"
    )


def test_no_type_is_both_served_and_excluded() -> None:
    assert not families.rows().keys() & EXCLUDED.keys()


def test_every_covered_or_excluded_type_is_one_of_transformers() -> None:
    own = {"apex1"}
    assert EXCLUDED.keys() <= BUILDABLE
    too_new = set(filter(families.lacking, families.rows()))
    unknown = set(families.rows()) - BUILDABLE - set(CONFIG_MAPPING_NAMES) - own - too_new
    text_models = {
        name for name in unknown if name.endswith("_text_model")
    }  # text models that only a wrapper's config names
    assert unknown == text_models


def test_transformers_lacks_exactly_the_types_that_came_later() -> None:
    """Run with every release that nnatlas takes: what `families/_since.py` says is what each has."""
    assert families.SINCE.keys() <= families.rows().keys()
    came = families.SINCE.keys() - REMADE.keys()
    assert {name for name in came if name in CONFIG_MAPPING_NAMES} == {n for n in came if not families.lacking(n)}


def test_a_type_that_came_later_is_refused_with_the_release_it_needs(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(families, "installed", lambda: "5.23.1.dev0")
    assert families.lacking("llama") == families.lacking("lfm3") == families.lacking("nosuch") == ""
    with pytest.raises(UnsupportedFamily, match=r"'dory' needs transformers 5\.24; installed is 5\.23.*>=5\.24'"):
        load("tiny:dory")
    monkeypatch.delitem(CONFIG_MAPPING._mapping, "dory", raising=False)
    (tmp_path / "config.json").write_text('{"model_type": "dory"}')
    with pytest.raises(UnsupportedFamily, match="'dory' needs transformers"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nosuch"}')
    with pytest.raises(ValueError, match="nosuch"):
        load(tmp_path)


def test_a_module_that_is_not_yet_as_its_row_knows_it_is_refused(monkeypatch) -> None:
    module = tiny_model("qwen3_5_text")
    monkeypatch.setattr(families, "installed", lambda: "5.22.2")
    with pytest.raises(UnsupportedFamily, match=r"'qwen3_5_text' needs transformers 5\.23; installed is 5\.22\.2"):
        wrap(module)


def test_no_two_rows_cover_one_type() -> None:
    covering: dict[str, set[str]] = {}
    for family in {id(row): row for row in families.rows().values()}.values():
        for name in family.covers:
            covering.setdefault(name, set()).add(family.name)
    assert {name: by for name, by in covering.items() if len(by) > 1} == {}


def test_an_excluded_type_is_refused_with_its_reason() -> None:
    with pytest.raises(UnsupportedFamily, match=r"'bart'.*decoder half of an encoder-decoder"):
        wrap(tiny_model("bart"))
