"""Point 9: what is not supported is said clearly, while a run is open."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, plain, tiny

from nnatlas.errors import InputError, RowDoesNotFit
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


@pytest.mark.parametrize("read_before", [True, False])
def test_a_module_that_gave_way_to_another(read_before):
    """Adapters or embeddings put in after the load would leave the old module's numbers under the name."""
    model = load("tiny:llama")
    attention = model._module.model.layers[1].self_attn
    if read_before:
        model.collect(IDS, ["layers.1.self_attn.unrotated_queries", "token_embeddings"])
    attention.q_proj = torch.nn.Sequential(attention.q_proj, torch.nn.Linear(*attention.q_proj.weight.shape[:1] * 2))
    model._module.set_input_embeddings(torch.nn.Embedding(330, model.hidden_size))
    for name, path in (("layers[1].self_attn.unrotated_queries", "q_proj"), ("token_embeddings", "embed_tokens")):
        with pytest.raises(RowDoesNotFit, match=rf"another module stands at .*{path}.*Load the changed model again"):
            model.collect(IDS, name)
        with pytest.raises(RowDoesNotFit, match=path), model.editing(name, lambda value, call: value):
            pass
    again = load(model._module)
    expected = plain(again, IDS, {"x": attention.q_proj})["x"].unflatten(-1, (again.num_heads, -1)).transpose(1, 2)
    with again.trace(IDS):
        assert torch.equal(again.layers[1].self_attn.unrotated_queries, expected)
