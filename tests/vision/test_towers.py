"""The laws of towers on one type of each build, and wrong rows that fail them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.vision.wrappers import wrapper

from nnatlas.bind.tower import BoundTower
from nnatlas.check.vision import SENTENCES, check_vision
from nnatlas.errors import InputError
from nnatlas.families import towers, wrappers
from nnatlas.model import StandardizedTransformer, load

BUILDS = {
    "aya_vision": ("images", "patches"),
    "llava": ("images", "class_and_patches"),
    "mistral3": ("one", "packed_patches"),
    "qwen2_5_vl": ("windowed_patches",),
    "internvl": ("images", "class_and_patches"),
    "got_ocr2": ("images", "rows", "columns"),
}


@pytest.mark.parametrize("model_type", BUILDS)
def test_the_laws_hold_and_the_layout_says_how_patches_lie(model_type: str) -> None:
    model = wrapper(model_type)
    report = check_vision(model)
    assert report.passed, [str(failure) for failure in report.failures]
    assert set(SENTENCES) <= set(report.laws) | {"many", "together"}  # of several images, of calls made for each
    assert report.laws["residual"]["holds"] == model.vision.num_layers == 2
    layout = model.vision.layers[0]._host.point("layer_output").layout
    assert layout.axes == (*BUILDS[model_type], "hidden_size")
    assert model.vision.hidden_size == 64 and model.vision.patch_size >= 2


def with_rows(model: StandardizedTransformer, row: Any = None, wrapping: Any = None) -> StandardizedTransformer:
    """The same module under a wrong tower row or a wrong wrapper row."""
    right = model._owner.vision
    assert isinstance(right, BoundTower)
    made = load(model._module, processor=model.processor)
    tower = BoundTower(made._owner, wrapping or right.wrapper, row or towers.find(right.family.name))
    made._owner.vision = tower
    made._prepare.tower = tower
    return made


def test_a_tower_row_that_forgets_a_factor_breaks_the_residual() -> None:
    wrong = towers.find("internvit").remade(cells={**towers.find("internvit").cells, "mlp.mlp_output": "mlp > out"})
    report = check_vision(with_rows(wrapper("internvl"), wrong))
    assert {failure.law for failure in report.failures} == {"residual"}
    assert len(report.failures) == 2


def test_a_wrapper_row_that_names_the_wrong_block_breaks_reads() -> None:
    wrong = wrappers.find("llava").remade(reads=("tower_output",))
    report = check_vision(with_rows(wrapper("llava"), wrapping=wrong))
    broken = {failure.law for failure in report.failures}
    assert "reads" in broken and "scatter" not in broken
    wrong = wrappers.find("cohere2_vision").remade(reads=("layers[0].layer_output",))
    report = check_vision(with_rows(wrapper("cohere2_vision"), wrapping=wrong))
    assert any("reaches the projector" in failure.detail for failure in report.failures)


def test_a_place_before_the_features_are_what_enters_breaks_the_scatter() -> None:
    cells = {
        **wrappers.find("aya_vision").cells,
        "vision.image_features": "root.model.multi_modal_projector.linear_1 > in",
    }
    report = check_vision(with_rows(wrapper("aya_vision"), wrapping=wrappers.find("aya_vision").remade(cells=cells)))
    assert "scatter" in {failure.law for failure in report.failures}


def test_a_tower_prints_itself_and_is_supported() -> None:
    model = wrapper("aya_vision")
    printed, support = repr(model), model.support()
    for said in (
        "(vision/model.vision_tower): SiglipVisionModel",
        "(projector/model.multi_modal_projector)",
        "2 blocks",
    ):
        assert said in printed
    assert support["vision.layers[i].self_attn.attention_scores"] is None
    assert "not gated" in support["vision.layers[i].self_attn.attention_gate"]
    assert "what reads images: SiglipVisionModel (siglip), 2 blocks" in repr(support)
    assert "vision" in dir(model) and {"layers", "patch_embed", "norm", "image_features"} <= set(dir(model.vision))
    assert type(model.vision.patch_embed._module).__name__ == "Conv2d"
    assert "SiglipVisionModel" in support._repr_html_()


def test_collect_takes_values_of_the_tower_in_any_order() -> None:
    from tests.vision.wrappers import pictured

    model = wrapper("aya_vision")
    found = model.collect(
        "What?", ["logits", "vision.layers.*.layer_output", "vision.image_features", "projector.projector_output"],
        images=[pictured()],
    )  # fmt: skip
    assert found.vision.layers[1].layer_output.shape == (1, 16, 64)
    assert found["projector.projector_output"].reshape(-1, 64).equal(found["vision.image_features"])


def test_a_model_without_a_tower_or_a_processor_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="reads text alone"):
        check_vision("tiny:llama", task="text-generation")
    with pytest.raises(InputError, match="without a processor"):
        check_vision(load(wrapper("llava")._module))


@pytest.mark.parametrize(
    "options", [{"attn_implementation": "eager"}, {"dtype": torch.bfloat16}], ids=["eager", "bfloat16"]
)
def test_the_laws_hold_under_other_attention_and_in_half_precision(options: dict[str, Any]) -> None:
    report = check_vision("tiny:gemma3", **options)
    assert [str(failure) for failure in report.failures] == []
