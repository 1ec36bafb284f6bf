"""The laws on a real model: SmolLM2 in full precision, and its arithmetic in half."""

from __future__ import annotations

import pytest
import torch

import nnatlas

PROMPT = "The Eiffel Tower is in the city of Paris, which lies on the Seine."


@pytest.mark.real
@pytest.mark.slow
def test_every_law_holds_on_smollm2(smollm2_folder):
    report = nnatlas.check(nnatlas.load(str(smollm2_folder)), inputs=PROMPT)
    assert [str(failure) for failure in report.failures] == []
    assert report.laws["residual"]["holds"] == 30
    assert report.laws["head"]["worst"] == 0.0


@pytest.mark.real
@pytest.mark.slow
def test_what_one_forward_can_show_holds_on_smollm2_in_bfloat16(smollm2_folder):
    model = nnatlas.load(str(smollm2_folder), dtype=torch.bfloat16)
    report = nnatlas.check(model, laws=["shape", "residual", "chain", "head", "held", "whole", "clean"], inputs=PROMPT)
    assert [str(failure) for failure in report.failures] == []
    assert report.laws["chain"]["worst"] > 1e-3
