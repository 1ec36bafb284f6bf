"""What is said of Helium: Llama's block with a rotary of neighbouring pairs and a key/value head for every query head."""

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
    rotated_halves,
    rotated_pairs,
    rotation,
    split_heads,
    tiny,
)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def model(request):
    heads = {
        "num_key_value_heads": 4,
        "head_dim": 16,
    }  # as in the released checkpoint: as many key/value heads as heads
    return tiny("helium", request.param, heads)


def test_every_value_of_the_page_is_listed(model):
    assert_page_is_listed(model, absent={})


def test_identity_at_block_1(model):
    assert_identity_holds(model)


def test_the_last_block_reads_out_as_the_logits_bit_for_bit(model):
    assert_reads_out_as_the_logits(model)


@pytest.mark.parametrize("projection, value", [("q_proj", "attention_queries"), ("k_proj", "attention_keys")])
def test_neighbouring_dimensions_turn_together(model, projection, value):
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        heads = split_heads(getattr(attention, projection).output, model.qk_head_dim)
        rotated = getattr(attention, value)
    turn = rotation(model, model.qk_head_dim)
    torch.testing.assert_close(rotated_pairs(heads, *turn), rotated, rtol=0, atol=2e-6)
    assert (rotated_halves(heads, *turn) - rotated).abs().max() > 0.1


def test_evens_then_odds_is_the_order_of_a_rotary_of_halves(model):
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    evens_then_odds = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    with model.trace(IDS):
        before, after = attention.unrotated_queries.clone(), attention.attention_queries.clone()
    turned = rotated_halves(before[..., evens_then_odds], *rotation(model, width))
    torch.testing.assert_close(turned, after[..., evens_then_odds], rtol=0, atol=2e-6)


def test_an_edit_of_a_key_value_head_reaches_its_own_query_head_alone(model):
    assert model.num_kv_heads == model.num_heads == 4
    assert [heads_reached(model, 1, head) for head in range(4)] == [[0], [1], [2], [3]]


def test_the_norm_multiplies_by_its_gain_in_float32():
    model = tiny("helium", "sdpa", {"head_dim": 16})
    norm = model.layers[0].attention_norm._module.bfloat16()
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    wide = x.float()
    wide = wide * (wide.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
    assert torch.equal(norm(x), (norm.weight.float() * wide).bfloat16())
