"""The report: what it says, in tables and JSON, of a model that passes and one that does not."""

from __future__ import annotations

import json

import pytest
import torch

import nnatlas
from nnatlas.check import SENTENCES, Report
from nnatlas.check.findings import apart
from nnatlas.errors import InputError, LawBroken

IDS = torch.arange(40, 52)[None]


@pytest.fixture(scope="module")
def model():
    return nnatlas.load("tiny:llama")


@pytest.fixture(scope="module")
def report(model) -> Report:
    return nnatlas.check(model)


def test_every_law_was_run_and_holds(report):
    assert list(report.laws) == list(SENTENCES)
    assert report.passed
    assert all(counts["holds"] and not counts["broken"] for counts in report.laws.values())


def test_every_served_value_was_read_written_and_differentiated(report, model):
    served = {key for key, one in report.values.items() if not one.absent}
    assert served == set(model.support().served)
    stream = report.values["block.layer_output"]
    assert (stream.read, stream.write, stream.gradient) == ("holds", "holds", "holds")
    assert stream.layout == "Residual [batch seq hidden_size]"
    assert report.values["input_ids"].gradient == "whole numbers (torch.int64) have no gradient"
    assert report.values["next_token_probs"].write.startswith("read only:")
    assert report.values["mlp.router_logits"].absent == "a dense MLP: it has no router and no experts"


def test_the_report_is_json(report):
    data = json.loads(report.json())
    assert data["passed"] is True
    assert data["family"] == "llama"
    assert data["values"]["self_attn.attention_scores"]["laws"]["chain"] == "holds"
    assert data["failures"] == []
    facts = report.facts()
    assert "seconds" not in facts
    assert facts == nnatlas.check("tiny:llama").facts()


def test_the_report_is_a_table_in_a_terminal_and_a_notebook(report):
    assert "every law holds" in repr(report)
    assert "self_attn.attention_premix" in repr(report)
    assert report._repr_html_().count("<table>") == 2


def test_only_the_laws_asked_for_are_run_in_their_own_order(model):
    assert list(nnatlas.check(model, laws=["head", "shape"]).laws) == ["shape", "head"]
    assert list(model.check(laws="residual").laws) == ["residual"]
    with pytest.raises(InputError, match="residual"):
        nnatlas.check(model, laws=["residuals"])


def test_blocks_and_inputs_can_be_chosen(model):
    report = nnatlas.check(model, laws=["shape", "causal"], blocks=[2], inputs="a prompt of one's own")
    assert report.passed
    assert report.subject["blocks"] == [2]
    assert {one.where for one in report.findings} == {"model", "layers[2]"}
    with pytest.raises(InputError, match="block 7 of 4"):
        nnatlas.check(model, blocks=[7])
    with pytest.raises(InputError, match="three tokens"):
        nnatlas.check(model, inputs=[[65, 66]])


def test_a_tolerance_of_nothing_is_too_strict_and_raises_by_name(model):
    with pytest.raises(LawBroken, match=r"scores == .* queries · keys"):
        nnatlas.check(model, laws=["chain"], tolerance=0.0, raise_on_failure=True)


def test_half_precision_has_a_tolerance_of_its_own():
    report = nnatlas.check("tiny:llama", dtype=torch.bfloat16)
    assert report.subject["dtype"] == "bfloat16"
    assert [str(one) for one in report.failures] == []
    assert report.laws["chain"]["worst"] > 1e-4


def test_a_config_field_that_nobody_reads_is_refused():
    module = nnatlas.load("tiny:llama")._module
    module.config.attention_multiplier = 0.3
    module.config.favourite_colour = "blue"
    (failure,) = nnatlas.check(nnatlas.load(module), laws=["whole"]).failures
    assert (failure.law, failure.value) == ("whole", "config")
    assert "attention_multiplier" in failure.detail
    assert "favourite_colour" not in failure.detail


def test_what_a_check_leaves_behind_is_noticed():
    model = nnatlas.load("tiny:llama")
    from nnatlas.check.imprint import Imprint

    before = Imprint(model._owner)
    assert not any(before.differences(Imprint(model._owner)).values())
    block = model._module.model.layers[1]
    block.mlp.register_forward_hook(lambda *_: None)
    block.self_attn.q_proj.weight.data[0, 0] += 1e-6
    block.self_attn.o_proj.weight.requires_grad_(True)
    block.train()
    found = before.differences(Imprint(model._owner))
    assert "model.layers.1.mlp" in found["hooks"]
    assert "model.layers.1.self_attn.q_proj.weight" in found["numbers"]
    assert "o_proj.weight" in found["flags"]
    assert "model.layers.1" in found["modes"]
    assert not found["attention"]
    assert not found["runs"]


def test_a_check_puts_back_who_asks_for_gradients():
    model = nnatlas.load("tiny:llama")
    weight = model._module.model.layers[0].mlp.up_proj.weight.requires_grad_(True)
    assert nnatlas.check(model, laws=["gradient", "clean"]).passed
    assert weight.requires_grad
    assert weight.grad is None
    assert not model._module.model.layers[0].mlp.down_proj.weight.requires_grad


def test_a_model_that_ignores_an_edit_breaks_the_causal_law(monkeypatch):
    model = nnatlas.load("tiny:llama")
    norm = model._module.model.norm
    forward = type(norm).forward
    monkeypatch.setattr(norm, "forward", lambda hidden: forward(norm, hidden * 0 + 1))
    broken = {failure.value for failure in nnatlas.check(model, laws=["causal"]).failures}
    assert "block.layer_output" in broken
    assert "final_norm_output" not in broken


def test_looking_at_later_tokens_breaks_the_causal_law(monkeypatch):
    model = nnatlas.load("tiny:llama")
    mlp = model._module.model.layers[1].mlp
    forward = type(mlp).forward
    monkeypatch.setattr(mlp, "forward", lambda x: forward(mlp, x) + x.mean(1, keepdim=True))
    (failure, *_) = [one for one in nnatlas.check(model, laws=["causal"]).failures if one.value == "token_embeddings"]
    assert "earlier positions" in failure.detail


def test_apart_is_relative_to_size_and_knows_shapes_and_nans():
    one = torch.tensor([1.0, 2.0, 3.0])
    assert apart(one, one) == 0
    assert apart(one[:2], one) == float("inf")
    assert apart(torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0])) == float("inf")
    assert apart(1000 * one * (1 + 1e-3), 1000 * one) == pytest.approx(apart(one * (1 + 1e-3), one), rel=1e-2)
    assert 1e-4 < apart(one * (1 + 1e-3), one) < 1e-3


def test_apart_sees_differences_beside_what_is_put_down_to_the_least_number():
    least = torch.finfo(torch.float32).min
    masked = torch.tensor([1.0, 2.0, least])
    assert apart(torch.tensor([1.5, 2.0, least]), masked) > 0.1
    assert apart(torch.tensor([1.0, 2.0, 3.0]), masked) >= 1
