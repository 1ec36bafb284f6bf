"""What is said of Cohere 2: one norm for two parallel sublayers, rotary on sliding blocks only, logits times a constant."""

from __future__ import annotations

import pytest
import torch
from tests.families.seed_pages import (
    IDS,
    IMPLEMENTATIONS,
    assert_identity_holds,
    assert_page_is_listed,
    assert_reads_out_as_the_logits,
    heads_reached,
    rotated_pairs,
    rotation,
    split_heads,
    tiny,
)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def model(request):
    return tiny("cohere2", request.param)


@pytest.fixture(scope="module")
def kinds(model):
    """The first sliding block and the first full one."""
    types = model.config.layer_types
    return types.index("sliding_attention"), types.index("full_attention")


def test_every_value_of_the_page_is_listed_and_the_missing_middle_says_why(model):
    assert_page_is_listed(model, absent={"block.layer_mid": "parallel block"})


def test_identity_at_block_1(model):
    assert_identity_holds(model)


def test_the_sum_in_the_blocks_own_order_is_exact(model):
    names = ("layer_input", "self_attn.attention_output", "mlp.mlp_output", "layer_output")
    entering, attention, mlp, leaving = model.collect(IDS, [f"layers.1.{name}" for name in names]).values()
    assert torch.equal(entering + attention + mlp, leaving)


def test_the_last_block_reads_out_as_the_logits_bit_for_bit_with_the_scale(model):
    assert model.config.logit_scale != 1
    assert_reads_out_as_the_logits(model)
    raw, logits = model.collect(IDS, ["lm_head_output", "logits"]).values()
    assert torch.equal(raw * model.config.logit_scale, logits)


def test_one_norm_feeds_both_sublayers(model):
    block = model.layers[1]
    with model.trace(IDS):
        normed = block.attention_norm_output
        assert torch.equal(normed, block.mlp_norm_output)
        assert torch.equal(block.self_attn.input, normed)
        assert torch.equal(block.mlp_input, normed)
    norm = block.input_layernorm._module
    assert norm.weight is not None
    assert getattr(norm, "bias", None) is None


def test_an_edit_of_the_norm_reaches_both_and_one_of_the_attention_stays_there(model):
    block = model.layers[1]
    with model.trace(IDS):
        before = block.mlp_input.clone()
    with model.trace(IDS):
        block.self_attn.attention_output = 0.0
        unmoved = block.mlp_input.clone()
    with model.trace(IDS):
        block.input_layernorm.output = torch.zeros_like(before)
        read_by_attention, read_by_mlp = block.self_attn.input.clone(), block.mlp_input.clone()
    assert torch.equal(unmoved, before)
    assert read_by_attention.abs().max() == read_by_mlp.abs().max() == 0


def test_an_edit_in_place_of_what_the_attention_reads_is_read_by_the_mlp_too(model):
    block = model.layers[1]
    with model.trace(IDS):
        block.self_attn.input[:] = 0
        read_by_mlp = block.mlp_input.clone()
    assert read_by_mlp.abs().max() == 0


def test_full_blocks_apply_no_rotary(model, kinds):
    attention = model.layers[kinds[1]].self_attn
    with model.trace(IDS):
        projected_queries, projected_keys = attention.q_proj.output, attention.k_proj.output
        queries, keys = attention.attention_queries, attention.attention_keys
    assert torch.equal(split_heads(projected_queries, model.qk_head_dim), queries)
    assert torch.equal(split_heads(projected_keys, model.qk_head_dim), keys)


def test_sliding_blocks_turn_neighbouring_pairs(model, kinds):
    attention = model.layers[kinds[0]].self_attn
    with model.trace(IDS):
        heads = split_heads(attention.k_proj.output, model.qk_head_dim)
        keys = attention.attention_keys
    torch.testing.assert_close(rotated_pairs(heads, *rotation(model, model.qk_head_dim)), keys, rtol=0, atol=2e-6)
    assert (heads - keys).abs().max() > 0.1


def test_the_window_stands_on_the_module_of_sliding_blocks_only(model, kinds):
    assert [model.layers[number].self_attn._module.sliding_window for number in kinds] == [8, None]


def test_scores_are_scaled_by_the_root_of_the_head_width(model, kinds):
    attention = model.layers[kinds[1]].self_attn
    with model.trace(IDS):
        queries, keys, scores = attention.attention_queries, attention.attention_keys, attention.attention_scores
    products = queries @ keys.repeat_interleave(2, 1).transpose(-2, -1) * model.qk_head_dim**-0.5
    visible = torch.ones(IDS.shape[1], IDS.shape[1]).tril().bool()
    torch.testing.assert_close(scores[..., visible], products[..., visible])


def test_there_are_no_query_or_key_norms(model):
    assert not hasattr(model.layers[0].self_attn, "q_norm")
    assert not hasattr(model.layers[0].self_attn, "k_norm")


def test_a_key_value_head_reaches_its_group(model, kinds):
    assert heads_reached(model, kinds[1], 0) == [0, 1]
    assert heads_reached(model, kinds[1], 1) == [2, 3]
