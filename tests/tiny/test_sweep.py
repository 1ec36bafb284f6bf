"""Every type that has a row, built tiny with the row's own fields: `NNATLAS_SWEEP=1 pytest tests/tiny`, minutes."""

from __future__ import annotations

import os

import pytest
import torch

from nnatlas import families
from nnatlas.tiny import tiny_config, tiny_model
from nnatlas.tiny.overrides import configs_in

TYPES = (
    sorted(name for name, row in families.rows().items() if not row.defined_in)
    if os.environ.get("NNATLAS_SWEEP")
    else []
)
NEEDS_AN_IMAGE = {"blip-2", "instructblip", "instructblipvideo", "idefics", "kosmos-2"}
OTHER_TOWER = {"gemma3n"}  # its own needs timm, and its config accepts no other


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in OTHER_TOWER])
def test_a_tiny_config_is_valid_by_its_own_rules(model_type):
    for part in configs_in(tiny_config(model_type, families.rows()[model_type].tiny)):
        part.validate()


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in NEEDS_AN_IMAGE])
def test_every_type_runs_and_spreads_its_logits(model_type):
    model = tiny_model(model_type, families.rows()[model_type].tiny)
    with torch.no_grad():
        logits = model(input_ids=torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(1))).logits
    assert logits.isfinite().all()
    assert 0.2 < logits.std() < 6
    assert sum(parameter.numel() for parameter in model.parameters()) < 6_000_000


@pytest.mark.parametrize("model_type", [name for name in TYPES if name in NEEDS_AN_IMAGE])
def test_types_that_refuse_text_alone_are_built(model_type):
    model = tiny_model(model_type, families.rows()[model_type].tiny)
    with pytest.raises((TypeError, ValueError), match="pixel_values"):
        model(input_ids=torch.zeros(1, 4, dtype=torch.long))
