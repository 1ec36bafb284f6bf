"""Llama 4's tower, whose image class raises in transformers 5.24 itself unless its output gets the field it asks for."""

from __future__ import annotations

import pytest
from tests.vision.wrappers import pictured, wrapper
from transformers.models.llama4 import modeling_llama4

from nnatlas.check.vision import check_vision
from nnatlas.check.vision.sweeping import reasons


def test_the_class_raises_with_images_as_its_reason_says() -> None:
    """When this fails, transformers is mended: take `unrun` out of the row."""
    model = wrapper("llama4")
    with pytest.raises(AttributeError, match="image_outputs"), model.trace("What?", images=[pictured()]):
        features = model.vision.image_features.clone()  # all that comes before its end can be read all the same
    assert features.isfinite().all()
    assert "asks the text model's output for image_outputs" in reasons()["llama4"]


def test_the_tower_obeys_the_laws_once_the_class_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_llama4.MoeCausalLMOutputWithPast, "image_outputs", None, raising=False)
    report = check_vision("tiny:llama4")
    assert [str(failure) for failure in report.failures] == []
    assert report.laws["residual"]["holds"] == 2
    assert "raises at its end" in reasons()["llama4"]
