"""The measurements of all wrappers that come with the package, and the rows they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from typer.testing import CliRunner

from nnatlas import families
from nnatlas.check.vision import sweeping
from nnatlas.cli import build
from nnatlas.errors import InputError
from nnatlas.families import towers, wrappers

IMAGE_TYPES = sorted(set(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES) & set(families.rows()))


def kept_with(said: str) -> set[str]:
    """The types that have an exception which begins so."""
    types = sweeping.read().types.items()
    return {name for name, one in types if any(exception.startswith(said) for exception in one["exceptions"])}


def test_every_image_text_type_has_a_row_or_a_reason() -> None:
    assert sorted(name for name in wrappers.rows() if not families.lacking(name)) == IMAGE_TYPES
    assert len(wrappers.rows()) == 92
    assert all(len(reason) > 20 for reason in sweeping.reasons().values())


def test_at_least_forty_wrappers_pass_every_law() -> None:
    kept = sweeping.read()
    assert sorted(kept.types) == sweeping.types()
    assert kept.without == sweeping.reasons()
    assert kept.failures == {}
    assert len(kept.passing) >= 89
    assert {"aya_vision", "cohere2_vision"} <= set(kept.passing)
    for one in kept.types.values():
        assert "vision.image_token_mask" in {**one["served"], **one["absent"]}
        assert one["laws"]["pure"] == one["laws"]["held"] == "holds"


def test_every_tower_row_was_proven_by_some_wrapper() -> None:
    proven = {one["tower"] for one in sweeping.read().types.values()} | {"llama4"}  # see test_llama4.py
    assert proven == {row.name for row in towers.rows().values()}


def test_three_types_have_no_images_to_run_here_and_each_reason_is_true() -> None:
    """What they are said to lack is asked of transformers itself; for the third see test_llama4.py."""
    import inspect

    import transformers

    assert sorted(sweeping.reasons()) == ["evolla", "llama4", "mistral4"]
    for name in ("evolla", "mistral4"):
        made = getattr(transformers, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[name])
        assert "pixel_values" not in inspect.signature(inspect.unwrap(made.forward)).parameters
        assert not hasattr(transformers.CONFIG_MAPPING[name](), "vision_config")
    assert "protein_input_ids" in inspect.signature(transformers.EvollaForProteinText2Text.forward).parameters


def test_all_but_nine_hold_the_scatter_exactly() -> None:
    apart = kept_with("scatter: vision.image_features: ")
    learned = {"blip-2", "instructblip", "instructblipvideo"}
    assert apart == {*learned, "gemma3n", "idefics", "kosmos-2", "kosmos-2.5", "mllama"}
    assert kept_with("scatter: model: ") == {"diffusion_gemma"}


def test_the_command_checks_types_and_keeps_what_it_found(tmp_path: Path) -> None:
    from nnatlas.cli import check_vision

    kept = tmp_path / "vision.json"
    found = sweeping.VisionSweep({"aya_vision": sweeping.check_type("aya_vision")}, sweeping.reasons())
    sweeping.write(kept, found)
    assert json.loads(kept.read_text())["types"]["aya_vision"] == sweeping.read().types["aya_vision"]
    sweeping.write(kept, sweeping.VisionSweep({"other": {"passed": False, "failures": ["no"]}}, {}))
    assert sorted(sweeping.read(kept).types) == ["aya_vision", "other"]
    assert sweeping.read(kept).failures == {"other": ["no"]}
    for name, said in (("evolla", "proteins"), ("aya_vison", "near: aya_vision")):
        with pytest.raises(InputError, match=said):
            check_vision.check_all([name], 1, 60, None)


def test_one_model_is_checked_by_the_command() -> None:
    done = CliRunner().invoke(build(), ["check", "tiny:cohere2_vision", "--vision"])
    assert done.exit_code == 0, done.output
    assert "every law holds" in done.output and "scatter" in done.output
    refused = CliRunner().invoke(build(), ["check", "tiny:cohere2_vision", "--vision", "--law", "shape"])
    assert refused.exit_code != 0
