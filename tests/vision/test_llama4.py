"""Llama 4's tower, whose image class raises in transformers 5.24 itself unless its output gets the field it asks for."""

from __future__ import annotations

import pytest
from transformers.models.llama4 import modeling_llama4

from nnatlas.check.vision import check_vision
from nnatlas.check.vision.sweeping import reasons


def test_the_tower_obeys_the_laws_once_the_class_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_llama4.MoeCausalLMOutputWithPast, "image_outputs", None, raising=False)
    report = check_vision("tiny:llama4")
    assert [str(failure) for failure in report.failures] == []
    assert report.laws["residual"]["holds"] == 2
    assert "raises at its end" in reasons()["llama4"]
