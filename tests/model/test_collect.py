"""collect: any order, patterns, derived values and mixtures from one forward, which ends after the last one needed."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, plain, tiny

from nnatlas.errors import InputError, NeverReached, Unavailable
from nnatlas.model import load


def test_any_order_and_the_mapping_keeps_it():
    model = tiny()
    names = ["layers.3.layer_output", "logits", "layers.0.self_attn.attention_probabilities", "token_embeddings"]
    with left_alone(model):
        found = model.collect(IDS, names)
    assert list(found) == names
    assert len(found) == 4
    expected = plain(model, IDS, {"x": model.layers[3]._module})
    assert torch.allclose(found["layers.3.layer_output"], expected["x"], atol=1e-4)  # block 0 went step by step
    assert torch.allclose(found["logits"], expected["logits"], atol=1e-4)
    exact = model.collect(IDS, ["logits", "layers.3.layer_output"])
    assert torch.equal(exact["layers.3.layer_output"], expected["x"])
    assert torch.equal(exact["logits"], expected["logits"])


def test_names_and_attributes():
    model = tiny()
    found = model.collect(
        IDS, ["layers.*.layer_output", "layers[1].self_attn.attention_queries", "layers[-1].mlp.mlp_output"]
    )
    assert found["layers[3].layer_output"] is found.layers[3].layer_output is found["layers.3.layer_output"]
    assert found.layers[1].self_attn.attention_queries.shape == (1, 4, 6, model.layers[0].self_attn.qk_head_dim)
    assert "layers.3.mlp.mlp_output" in found
    assert set(found.layers[3]) == {"layer_output", "mlp.mlp_output"}
    with pytest.raises(AttributeError, match="was not collected"):
        found.layers[2].layer_input
    with pytest.raises(KeyError, match="was not collected"):
        found["layers.2.layer_input"]
    assert "layers.1.self_attn.attention_queries: [1, 4, 6" in repr(found)
    assert found["layers[-1].layer_output"] is found.layers[-1].layer_output is found.layers["3"].layer_output
    assert "layers" in dir(found) and "layer_output" in dir(found.layers[-1])
    with pytest.raises(KeyError, match=r"layers\.-1\.layer_output was not collected"):
        found["layers[-5].layer_output"]


@pytest.mark.parametrize(
    "names, blocks",
    [
        (["layers.1.layer_output"], 2),
        (["layers.2.layer_input", "layers.0.mlp.mlp_output"], 2),
        (["token_embeddings"], 0),
    ],
)
def test_the_forward_ends_after_the_last_one_needed(names, blocks):
    model, calls = tiny(), []
    handles = [layer._module.register_forward_pre_hook(lambda *_: calls.append(1)) for layer in model.layers]
    try:
        model.collect(IDS, names)
    finally:
        for handle in handles:
            handle.remove()
    assert len(calls) - blocks in (0, 1)  # the input of a block is had as it begins


def test_derived_values():
    model = tiny()
    attention = model.layers[1].self_attn
    names = ["next_token_probs", "layers.1.self_attn.attention_head_contributions", "input_size"]
    found = model.collect(IDS, names)
    logits = model._module(IDS).logits
    assert torch.allclose(found["next_token_probs"], logits[:, -1].softmax(-1), atol=1e-6)
    assert found.input_size == [1, 6]
    parts = found.layers[1].self_attn.attention_head_contributions.sum(2)
    whole = model.collect(IDS, "layers.1.self_attn.attention_output").layers[1].self_attn.attention_output
    assert torch.allclose(parts + attention.o_proj._module.bias, whole, atol=1e-5)


@pytest.mark.parametrize("model_type", ["mixtral", "falcon", "bloom", "gpt_oss", "gemma2", "opt"])
def test_everything_a_model_serves_at_once(model_type):
    """Each equals what a run reads, taken one at a time."""
    model = tiny(model_type)
    names = [name for name, (host, value) in model._owner.names.items() if host.absence(value) is None]
    with left_alone(model):
        found = model.collect(IDS, names)
    assert list(found) == names
    for name in [name for name in names if name.startswith("layers.1.")]:
        with model.trace(IDS) as run:
            host, value = model._owner.names[name]
            read = run._run.read(host.point(value))
            run.stop()
        if isinstance(read, torch.Tensor):
            assert torch.allclose(found[name].float(), read.float(), atol=1e-5), name


def test_native_names():
    model = tiny()
    found = model.collect(IDS, ["model.layers.1.self_attn.q_proj.output", "model.layers.0.output"])
    expected = plain(model, IDS, {"q": model.layers[1].self_attn.q_proj._module, "x": model.layers[0]._module})
    assert torch.equal(found["model.layers.1.self_attn.q_proj.output"], expected["q"])
    assert torch.equal(found["model.layers.0.output"], expected["x"])
    by_standard = model.collect(IDS, ["layers.*.self_attn.q_proj.output", "layers[-1].mlp_norm.input", "norm.output"])
    assert list(by_standard) == [
        *(f"layers.{i}.self_attn.q_proj.output" for i in range(model.num_layers)), "layers.3.mlp_norm.input", "norm.output"
    ]  # fmt: skip
    assert torch.equal(by_standard["layers.1.self_attn.q_proj.output"], expected["q"])
    assert list(model.collect(IDS, "model.layers.?.mlp.output")) == [f"model.layers.{i}.mlp.output" for i in range(4)]


def test_what_cannot_be_had():
    model = tiny()
    with pytest.raises(
        InputError, match=r"no value is called 'layers\.1\.layer_outptu'; near: layers\.1\.layer_output"
    ):
        model.collect(IDS, ["layers.1.layer_outptu"])
    with pytest.raises(InputError, match="no value is called"):
        model.collect(IDS, ["layers.9.layer_output"])
    for wrong in (3, None, ["logits", 3]):
        with pytest.raises(InputError, match=r"by name, such as 'layers\.\*\.layer_output', not by (3|None)"):
            model.collect(IDS, wrong)
    with pytest.raises(Unavailable, match="dense MLP"):
        model.collect(IDS, ["layers.*.mlp.router_logits"])
    spare = load("tiny:llama")
    spare._module.model.layers[1].spare = torch.nn.Linear(2, 2)
    with left_alone(spare), pytest.raises(NeverReached, match="spare"):
        spare.collect(IDS, "model.layers.1.spare.output")


def test_exceptions_clean_up_and_open_runs_are_left_alone():
    model = tiny()
    with left_alone(model), model.trace(IDS):
        x = model.layers[1].self_attn.attention_queries
        inside = model.collect(IDS.flip(1), ["layers.0.self_attn.attention_keys", "layers.3.layer_output"])
        after = model.layers[3].layer_output
    assert x.shape[1] == 4
    assert torch.equal(after, plain(model, IDS, {"x": model.layers[3]._module})["x"])
    assert torch.equal(inside.layers[3].layer_output, plain(model, IDS.flip(1), {"x": model.layers[3]._module})["x"])

    def fail(*_):
        raise ZeroDivisionError

    for model_type in ("llama", "falcon"):
        model = tiny(model_type)
        handle = model.layers[1].self_attn.o_proj._module.register_forward_pre_hook(fail)
        try:
            with pytest.raises(ZeroDivisionError):
                model.collect(IDS, ["layers.1.self_attn.attention_scores", "logits"])
        finally:
            handle.remove()
        with left_alone(model):
            model.collect(IDS, "layers.1.self_attn.attention_scores")


def test_a_padded_batch_and_keywords():
    model = tiny()
    found = model.collect(["ab", "abcd"], "next_token_probs", add_special_tokens=False)
    alone = model.collect(["ab"], "next_token_probs", add_special_tokens=False)
    assert torch.allclose(found.next_token_probs[0], alone.next_token_probs[0], atol=1e-5)
    with pytest.raises(InputError, match="empty"):
        model.collect([], "logits")
