"""Config switches that change a block's structure: the row follows the built model, and every law holds either way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.families.seed_pages import IDS, tiny

import nnatlas

ALIBI = {"alibi": True}
SWITCHES: list[tuple[str, dict[str, Any]]] = [
    ("gpt_neox", {"use_parallel_residual": False}),
    ("gpt_neox", {"use_parallel_residual": True}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 2}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
    ("falcon", {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4}),
    ("falcon", {"new_decoder_architecture": False, "parallel_attn": False}),
    (
        "falcon",
        {"new_decoder_architecture": False, "parallel_attn": False, "multi_query": False, "num_kv_heads": 4, **ALIBI},
    ),
    ("falcon", ALIBI),
    ("opt", {"do_layer_norm_before": False}),
    ("opt", {"word_embed_proj_dim": 32}),
    ("bloom", {"apply_residual_connection_post_layernorm": True}),
    ("phi", {"qk_layernorm": True}),
    ("cohere", {"use_qk_norm": True}),
    ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("llama", {"tie_word_embeddings": True}),
]


def named(switch: tuple[str, dict[str, Any]]) -> str:
    return f"{switch[0]}-" + "-".join(f"{name}={value}" for name, value in switch[1].items())


@pytest.mark.parametrize("switch", SWITCHES, ids=named)
def test_every_law_holds_with_the_switch(switch):
    model = tiny(switch[0], "eager", switch[1])
    assert [str(failure) for failure in nnatlas.check(model).failures] == []


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("model_type", ["falcon"])
def test_falcon_in_parallel_or_in_turn_under_sdpa(model_type, alibi):
    for parallel in (True, False):
        model = tiny(model_type, "sdpa", {"parallel_attn": parallel, "alibi": alibi})
        assert [str(failure) for failure in nnatlas.check(model).failures] == []


def test_a_neox_block_in_turn_has_a_middle_and_one_in_parallel_has_none():
    in_turn, parallel = (tiny("gpt_neox", "sdpa", {"use_parallel_residual": switch}) for switch in (False, True))
    assert in_turn.support()["block.layer_mid"] is None
    assert "parallel" in parallel.support()["block.layer_mid"]
    with in_turn.trace(IDS):
        entering = in_turn.layers[1].layer_input.clone()
        added = in_turn.layers[1].self_attn.attention_output.clone()
        middle = in_turn.layers[1].layer_mid.clone()
    torch.testing.assert_close(middle, entering + added)


def test_a_post_norm_opt_says_why_it_has_no_normed_inputs():
    model = tiny("opt", "sdpa", {"do_layer_norm_before": False})
    support = model.support()
    assert "norm comes after the sum" in support["block.attention_norm_output"]
    assert "norm comes after the sum" in support["block.mlp_norm_output"]


def test_a_bloom_that_adds_the_normed_stream_says_so():
    model = tiny("bloom", "eager", {"apply_residual_connection_post_layernorm": True})
    names = (
        "attention_norm_output",
        "self_attn.attention_output",
        "layer_mid",
        "mlp_norm_output",
        "mlp.mlp_output",
        "layer_output",
    )
    found = list(model.collect(IDS, [f"layers.1.{name}" for name in names]).values())
    normed, attention, middle, normed_middle, mlp, leaving = found
    torch.testing.assert_close(normed + attention, middle)
    torch.testing.assert_close(normed_middle + mlp, leaving)


def test_phi_and_cohere_norm_their_heads_only_when_told_to():
    for model_type, switch in (("phi", "qk_layernorm"), ("cohere", "use_qk_norm")):
        plain, normed = (tiny(model_type, "sdpa", {switch: on}) for on in (False, True))
        assert not hasattr(plain.layers[0].self_attn, "q_norm")
        with normed.trace(IDS):
            norm = normed.layers[0].self_attn.q_norm.output
            before = normed.layers[0].self_attn.unrotated_queries
            assert norm.numel() == before.numel()
            assert torch.equal(norm.flatten().sort().values, before.flatten().sort().values)


def test_gemma_without_caps_leaves_scores_and_logits_uncapped():
    capped, free = (
        tiny("gemma2", "eager", caps)
        for caps in ({}, {"attn_logit_softcapping": None, "final_logit_softcapping": None})
    )
    limit = capped.config.final_logit_softcapping
    raw, given = capped.collect(IDS, ["lm_head_output", "logits"]).values()
    torch.testing.assert_close(given, limit * torch.tanh(raw / limit))
    assert not torch.allclose(raw, given, atol=1e-2)
    assert torch.equal(*free.collect(IDS, ["lm_head_output", "logits"]).values())


@pytest.mark.parametrize("implementation", ["eager", "batched_mm", "grouped_mm"])
def test_every_law_holds_under_every_experts_implementation(implementation):
    model = tiny("mixtral", "sdpa")
    model._module.set_experts_implementation(implementation)
    assert model._module.config._experts_implementation == implementation
    assert [str(failure) for failure in nnatlas.check(model).failures] == []


def test_a_narrow_embedding_is_served_in_its_own_width():
    model = tiny("opt", "sdpa", {"word_embed_proj_dim": 32})
    embedded, entering = model.collect(IDS, ["token_embeddings", "layers.0.layer_input"]).values()
    assert (embedded.shape[-1], entering.shape[-1]) == (32, 64)


def test_newer_falcons_serve_a_key_for_every_query_head():
    model = tiny("falcon", "eager", {"new_decoder_architecture": True, "num_kv_heads": 2})
    with model.trace(IDS):
        keys = model.layers[1].self_attn.attention_keys
    assert keys.shape[1] == model.num_heads == 4
    assert torch.equal(keys[:, 0], keys[:, 1])
    assert not torch.allclose(keys[:, 1], keys[:, 2])


def test_tokens_that_a_model_never_gives_are_put_down_in_the_readout_too():
    model = nnatlas.load("tiny:chameleon")
    barred = model._module.model.vocabulary_mapping.image_tokens
    with torch.no_grad(), model.trace(IDS):
        stream = model.layers[-1].layer_output.clone()
        head, logits = model.lm_head_output.clone(), model.logits.clone()
    assert len(barred) == 64 and logits[..., barred].max() == torch.finfo(logits.dtype).min
    assert torch.equal(model.project_on_vocab(stream), logits)
    free = [token for token in range(model.vocab_size) if token not in barred]
    assert torch.equal(head[..., free], logits[..., free]) and head[..., barred].abs().max() < 100
