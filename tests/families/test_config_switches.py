"""Switches of the config that change what a block is built of: the row follows the built module, and the laws hold either way."""

from __future__ import annotations

import pytest

from nnatlas import check, families, load
from nnatlas.model.load import wrap
from nnatlas.tiny import tiny_model

LAWS = ("shape", "residual", "chain", "head", "held", "whole")
MIXTURE = {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 48}
SWITCHES = {
    "norms after": ("chameleon", {"swin_norm": True}),
    "norms after, all heads at once": ("molmo2", {"text_config.norm_after": True, "text_config.qk_norm_type": "olmo"}),
    "parallel, heads normed": ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    "post-norms": ("hyperclovax", {"use_post_norm": True}),
    "no post-norms": ("hyperclovax", {"use_post_norm": False}),
    "a mixture beside the MLP": ("gemma4_text", MIXTURE),
    "no input per layer": ("gemma4_text", {"hidden_size_per_layer_input": 0}),
    "no shared MLP": ("granitemoeshared", {"shared_intermediate_size": 0}),
    "shared experts summed": ("cohere2_moe", {"shared_expert_combination_strategy": "sum"}),
    "heads normed": ("glm4_moe", {"use_qk_norm": True}),
    "heads not normed": ("persimmon", {"qk_layernorm": False}),
    "a key for every query": ("gpt_bigcode", {"multi_query": False}),
    "queries without a latent": ("deepseek_v3", {"q_lora_rank": None}),
    "gated by dimension": ("laguna", {"gating": "per-element"}),
    "neurons as experts": ("doge", {"is_moe": True}),
    "no cap": ("nanochat", {"final_logit_softcapping": None}),
    "a padded vocabulary": ("inkling_text", {"unpadded_vocab_size": 300}),
    "queries and keys cut off": ("olmo", {"clip_qkv": 1.5}),
}


@pytest.mark.parametrize("model_type, switch", SWITCHES.values(), ids=SWITCHES)
def test_the_laws_hold_either_way(model_type: str, switch: dict[str, object]) -> None:
    row = families.find(model_type)
    assert row is not None
    model = wrap(tiny_model(model_type, {**row.tiny, **switch}))
    assert [str(failure) for failure in check(model, laws=LAWS).failures] == []


def test_support_follows_the_switch() -> None:
    served, parallel = load("tiny:stablelm"), wrap(tiny_model("stablelm", {"use_parallel_residual": True}))
    assert served.support()["block.layer_mid"] is None
    assert "parallel block" in str(parallel.support()["block.layer_mid"])
    dense, mixed = load("tiny:gemma4_text"), wrap(tiny_model("gemma4_text", {**dense_tiny(), **MIXTURE}))
    assert "no router" in str(dense.support()["mlp.router_logits"])
    assert mixed.support()["mlp.router_logits"] is None


def dense_tiny() -> dict[str, object]:
    row = families.find("gemma4_text")
    assert row is not None
    return dict(row.tiny)
