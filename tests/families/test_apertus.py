"""What is said of Apertus: two pre-norms under their own names, normed heads, and an activation learned per block."""

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
    logits,
    split_heads,
    tiny,
)
from torch.nn import functional as F


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def model(request):
    return tiny("apertus", request.param)


def test_every_value_of_the_page_is_listed(model):
    assert_page_is_listed(model, absent={})


def test_identity_at_block_1(model):
    assert_identity_holds(model)


def test_the_last_block_reads_out_as_the_logits_bit_for_bit(model):
    assert_reads_out_as_the_logits(model)


def test_logits_are_the_heads_output(model):
    found = model.collect(IDS, ["lm_head_output", "logits"])
    assert torch.equal(*found.values())


def test_both_norms_answer_to_llamas_names(model):
    block = model.layers[1]
    assert block.input_layernorm._module is block._module.attention_layernorm
    assert block.post_attention_layernorm._module is block._module.feedforward_layernorm


def test_queries_and_keys_are_the_norms_outputs_at_position_0_only(model):
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        normed_queries, normed_keys = attention.q_norm.output, attention.k_norm.output
        queries, keys = attention.attention_queries, attention.attention_keys
    for normed, entering in ((normed_queries, queries), (normed_keys, keys)):
        assert torch.equal(normed[:, :, 0], entering[:, :, 0])
        assert not torch.allclose(normed[:, :, 1:], entering[:, :, 1:], atol=1e-2)


def test_one_gain_serves_every_head(model):
    assert model.layers[0].self_attn.q_norm._module.weight.shape == (model.qk_head_dim,)


def test_the_mlp_is_the_activation_of_the_up_projection(model):
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        up, before = mlp.up_proj.output, mlp.act_fn.input
        activation, neurons = mlp.mlp_activation, mlp.mlp_neurons
    assert torch.equal(up, before)
    assert torch.equal(activation, neurons)


def test_the_activation_has_two_learned_numbers_and_no_flat_side(model):
    native = model.layers[1].mlp.act_fn._module
    beta, eps = native.beta.float(), native.eps.float()  # 0.5 and -1e-6 on every checkpoint, moved in a tiny model
    rise, fall = F.softplus(native.alpha_p.float()), beta + F.softplus(native.alpha_n.float())
    x = torch.linspace(-20, 20, 401)
    expected = torch.where(x > 0, rise * x * x + beta * x, fall * (torch.expm1(torch.minimum(x, eps)) - x) + beta * x)
    torch.testing.assert_close(native(x), expected, rtol=1e-5, atol=1e-5)
    assert native(torch.tensor(-20.0)) > native(torch.tensor(-5.0)) > 0


def test_a_scaled_slice_of_q_proj_is_normed_away_and_scaled_queries_are_not(model):
    attention, width = model.layers[1].self_attn, model.qk_head_dim

    def double_slice():
        attention.q_proj.output[..., width : 2 * width] *= 2

    def double_queries():
        attention.attention_queries[:, 1] *= 2

    plain = logits(model)
    slice_moves = (logits(model, double_slice) - plain).abs().max()
    queries_move = (logits(model, double_queries) - plain).abs().max()
    assert slice_moves < 1e-3
    assert queries_move > 0.01
    assert queries_move > 100 * slice_moves


def test_no_norm_follows_the_values(model):
    attention = model.layers[1].self_attn

    def triple():
        attention.v_proj.output[..., : model.head_dim] *= 3

    assert (logits(model, triple) - logits(model)).abs().max() > 0.05


def test_values_are_the_projections_heads_and_each_reaches_its_group(model):
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        projected, values = attention.v_proj.output, attention.attention_values
    assert torch.equal(split_heads(projected, model.head_dim), values)
    assert (model.num_heads, model.num_kv_heads) == (4, 2)
    assert heads_reached(model, 1, 0) == [0, 1]
    assert heads_reached(model, 1, 1) == [2, 3]


def test_sdpa_and_eager_give_the_same_logits():
    one, other = (logits(tiny("apertus", implementation)) for implementation in IMPLEMENTATIONS)
    torch.testing.assert_close(one, other, atol=5e-5, rtol=0)
