"""A row that is wrong in one cell fails, and the report names the law and the value.  The right row of each passes."""

from __future__ import annotations

import pytest

import nnatlas
from nnatlas import families
from nnatlas.families._row import kind
from nnatlas.families._shapes import PARALLEL, absent

HEADS_SWAPPED = "o_proj > in : batch seq (head_dim num_heads)"

# type | what is wrong | the cells | law | value that must be named
WRONG = [
    ("gemma2", "contribution before its norm", {"attention_output": "self_attn > out"}, "residual", "block.layer_output"),
    ("gemma2", "contribution before its norm", {"attention_output": "self_attn > out"}, "chain", "self_attn.attention_output"),
    ("exaone4", "contribution at the other norm", {"mlp_output": "attention_post_norm > out"}, "chain", "mlp.mlp_output"),
    ("granite", "a missing scale", {"mlp_output": "mlp > out"}, "residual", "mlp.mlp_output"),
    ("granite", "a missing scale", {"attention_output": "self_attn > out"}, "residual", "self_attn.attention_output"),
    ("llama", "head axis inside out", {"attention_premix": HEADS_SWAPPED}, "chain", "self_attn.attention_premix"),
    ("bloom", "heads and rows swapped", {"attention_values": "self_attn ~ bmm[0] > in[1] : (num_kv_heads batch) seq head_dim"},
     "chain", "self_attn.attention_head_outputs"),
    ("llama", "the stream not shared", {"layer_mid": "mlp_norm > in"}, "causal", "block.layer_mid"),
    ("llama", "unrotated queries", {"attention_queries": "q_proj > out : batch seq (num_heads qk_head_dim)"},
     "chain", "self_attn.attention_scores"),
    ("llama", "scores after the softmax", {"attention_scores": "attention > probabilities"}, "chain",
     "self_attn.attention_probabilities"),
    ("llama", "the other norm", {"attention_norm_output": "mlp_norm > out"}, "chain", "block.attention_norm_output"),
    ("llama", "neurons before the gate", {"mlp_neurons": "act_fn > out"}, "chain", "mlp.mlp_neurons"),
    ("llama", "the MLP's output for the block's", {"layer_output": "mlp > out"}, "residual", "block.layer_output"),
    ("llama", "axes that do not multiply out", {"attention_premix": "o_proj > in : batch seq (num_heads num_heads)"},
     "shape", "attention_premix"),
    ("apertus", "positions before heads", {"unrotated_queries": "q_norm > out : batch seq num_heads qk_head_dim"},
     "shape", "self_attn.unrotated_queries"),
    ("cohere", "norm and head alone", {"final_norm_output": "embed_tokens > out"}, "chain", "final_norm_output"),
]  # fmt: skip


def failures(model_type: str, laws: list[str], **changed: object) -> list[tuple[str, str]]:
    row = families.find(model_type)
    row = row.remade(**{**changed, "cells": {**row.cells, **changed.get("cells", {})}})
    model = nnatlas.load(f"tiny:{model_type}")
    report = nnatlas.check(nnatlas.load(model._module, family=row), laws=laws)
    return [(failure.law, failure.value) for failure in report.failures]


def keyed(cells: dict[str, str]) -> dict[str, str]:
    """Cells by the key the row keeps them under."""
    return dict(kind("wrong", "has mlp", **cells).cells)


@pytest.mark.parametrize(
    "model_type, wrong, cells, law, value", WRONG, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_wrong_cell_is_named(model_type, wrong, cells, law, value):
    assert failures(model_type, [law]) == []
    assert (law, value) in failures(model_type, [law], cells=keyed(cells)), wrong


def test_a_readout_without_its_scale_breaks_the_head():
    assert ("head", "logits") in failures("cohere2", ["head"], readout="norm | lm_head")
    assert ("head", "logits") in failures("gemma2", ["head"], readout="norm | lm_head")


def test_an_overwritten_tensor_that_is_not_copied_is_not_held():
    parallel = kind("parallel", "config.parallel_attn", layer_mid=absent(PARALLEL), mlp_output="mlp > out")
    found = failures("falcon", ["held"], kinds=(parallel,))
    assert set(found) == {("held", "mlp.mlp_output")}
    assert failures("falcon", ["held"]) == []


def test_a_tensor_that_is_only_reported_is_no_place_to_write():
    row = families.find("mixtral")
    logits = {"mlp.router_logits": "router > out[0] : (batch seq) num_experts"}
    served = tuple(one.remade(cells={**one.cells, **logits}) for one in row.kinds)
    assert ("causal", "mlp.router_logits") in failures("mixtral", ["causal"], kinds=served)
    cell = {"mlp.router_logits": logits["mlp.router_logits"] + " reported"}
    declared = tuple(one.remade(cells={**one.cells, **cell}) for one in row.kinds)
    assert failures("mixtral", ["causal", "gradient", "chain"], kinds=declared) == []


def test_a_parameter_that_nobody_speaks_of_is_found():
    assert failures("gpt2", ["whole"], passes=()) == [("whole", "parameters")]


def test_a_declared_exception_is_excepted_with_its_reason():
    row = families.find("gpt2").remade(passes=(), breaks={"whole parameters": "learned positions are not served"})
    report = nnatlas.check(nnatlas.load(nnatlas.load("tiny:gpt2")._module, family=row), laws=["whole"])
    assert report.passed
    assert [one.detail for one in report.findings if one.status == "excepted"] == ["learned positions are not served"]
