"""Point 9: what is not supported is said clearly, while a run is open."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas.errors import InputError
from nnatlas.model import load


def test_gradient_checkpointing_in_training():
    model = load("tiny:llama")
    for (
        part
    ) in model._module.modules():  # what transformers does when it turns checkpointing on, under any of its names
        if hasattr(part, "gradient_checkpointing"):
            part.gradient_checkpointing = True
    with model.trace(IDS):  # in evaluation nothing is recomputed
        model.layers[0].layer_output
    model._module.train()
    with left_alone(model), pytest.raises(InputError, match="gradient checkpointing"), model.trace(IDS):
        pass
    with pytest.raises(InputError, match="gradient checkpointing"):
        model.collect(IDS, "logits")


@pytest.mark.parametrize("at", ["block", "above", "root", "forward"])
def test_compiled_modules(at):
    model = load("tiny:llama")
    module = model._module
    if at == "forward":
        module.forward = torch.compile(module.forward, backend="eager")
    else:
        {"block": module.model.layers[1], "above": module.model, "root": module}[at].compile(backend="eager")
    with left_alone(model), model.trace(IDS) as run:
        with pytest.raises(InputError, match="compiled"):
            model.layers[1].mlp.mlp_output
        run.stop()


def test_a_block_that_is_not_compiled_beside_one_that_is():
    model = load("tiny:llama")
    model._module.model.layers[2].compile(backend="eager")
    with model.trace(IDS) as run:
        found = model.layers[0].mlp.mlp_output
        run.stop()
    assert found.shape == (1, 6, 64)


def test_an_already_compiled_model_is_refused_by_load():
    with pytest.raises(InputError, match="compiled"):
        load(torch.compile(tiny()._module, backend="eager"))
