"""What is said of EXAONE 4.0: post-norms only, normed heads, and full blocks without rotary among sliding ones."""

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
    rotation,
    tiny,
)

from nnatlas.errors import Unavailable

SLIDING, FULL = 1, 3  # three sliding blocks to one full, as in the 32B checkpoint


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def model(request):
    return tiny("exaone4", request.param)


def test_every_value_of_the_page_is_listed_and_the_two_absent_norms_say_why(model):
    absent = {"block.attention_norm_output": "layer_input", "block.mlp_norm_output": "layer_mid"}
    assert_page_is_listed(model, absent)
    with pytest.raises(Unavailable, match="layer_input"), model.trace(IDS):
        model.layers[1].attention_norm_output


def test_identity_at_block_1(model):
    assert_identity_holds(model)


def test_the_last_block_reads_out_as_the_logits_bit_for_bit(model):
    assert_reads_out_as_the_logits(model)


def test_the_identity_is_exact_in_bfloat16():
    model = tiny("exaone4", "sdpa")
    model._module.bfloat16()
    names = ("layer_input", "self_attn.attention_output", "mlp.mlp_output", "layer_output")
    entering, attention, mlp, leaving = model.collect(IDS, [f"layers.1.{name}" for name in names]).values()
    assert leaving.dtype == torch.bfloat16
    assert torch.equal(entering + attention + mlp, leaving)


def test_there_is_no_norm_before_a_sublayer_and_the_native_name_keeps_its_place(model):
    block = model.layers[1]
    assert not hasattr(block, "input_layernorm")
    with model.trace(IDS):
        normed, added = block.post_attention_layernorm.output, block.self_attn.attention_output
    assert torch.equal(normed, added)


def test_the_sublayers_read_the_raw_stream(model):
    block = model.layers[1]
    with model.trace(IDS):
        entering = block.layer_input.clone()
        read_by_attention = block.self_attn.input.clone()
        attention = block.self_attn.attention_output.clone()
        middle, read_by_mlp = block.layer_mid.clone(), block.mlp_input.clone()
    assert torch.equal(read_by_attention, entering)
    assert torch.equal(read_by_mlp, entering + attention)
    assert torch.equal(read_by_mlp, middle)


def test_token_embeddings_are_the_first_blocks_input(model):
    assert torch.equal(*model.collect(IDS, ["token_embeddings", "layers.0.layer_input"]).values())


def relative(before, after):
    return ((after - before).norm() / before.norm()).item()


def doubled_input(model, block, part, value):
    """How much a contribution changes when what its sublayer reads is doubled."""
    host = getattr(model.layers[block], part)
    with model.trace(IDS):
        before = getattr(host, value).clone()
    with model.trace(IDS):
        host.input[:] *= 2
        after = getattr(host, value).clone()
    return relative(before, after)


def test_the_attention_reads_only_the_direction_of_its_input_and_the_mlp_does_not(model):
    assert doubled_input(model, 1, "self_attn", "attention_output") < 1e-3
    assert doubled_input(model, 1, "mlp", "mlp_output") > 0.05


def test_without_epsilons_the_attention_is_invariant():
    model = tiny("exaone4", "eager")
    for module in model._module.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 0.0
    assert doubled_input(model, 1, "self_attn", "attention_output") < 1e-6


def test_halving_the_contribution_halves_what_the_block_adds(model):
    block = model.layers[1]
    with model.trace(IDS):
        middle, added = block.layer_mid.clone(), block.mlp.mlp_output.clone()
    with model.trace(IDS):
        block.mlp.mlp_output[:] *= 0.5
        leaving = block.layer_output.clone()
    torch.testing.assert_close(leaving, middle + 0.5 * added)


def test_each_head_is_normed_on_its_own(model):
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        before = attention.attention_queries.clone()
    with model.trace(IDS):
        attention.q_proj.output[..., :width] *= 3
        tripled = attention.attention_queries.clone()
    with model.trace(IDS):
        projected = attention.q_proj.output
        projected[..., :width] += projected[..., width : 2 * width].clone()
        mixed = attention.attention_queries.clone()
    assert relative(before[:, 0], tripled[:, 0]) < 1e-4
    assert torch.equal(before[:, 1], tripled[:, 1])
    assert relative(before[:, 0], mixed[:, 0]) > 0.1
    assert torch.equal(before[:, 1], mixed[:, 1])


def test_a_head_without_queries_attends_uniformly_to_the_causal_prefix(model):
    attention = model.layers[FULL].self_attn
    with model.trace(IDS):
        attention.attention_queries[:, 0] = 0
        pattern = attention.attention_probabilities.clone()
    length = IDS.shape[1]
    uniform = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    torch.testing.assert_close(pattern[0, 0], uniform)
    assert not torch.allclose(pattern[0, 1], uniform, atol=1e-2)


def test_full_blocks_do_not_rotate_and_sliding_ones_do(model):
    for number, rotates in ((SLIDING, True), (FULL, False)):
        attention = model.layers[number].self_attn
        with model.trace(IDS):
            normed_queries, normed_keys = attention.q_norm.output, attention.k_norm.output
            queries, keys = attention.attention_queries, attention.attention_keys
        turn = rotation(model, model.qk_head_dim)
        for normed, entering in ((normed_queries, queries), (normed_keys, keys)):
            assert torch.equal(normed, entering) is not rotates
            if rotates:
                torch.testing.assert_close(rotated_halves(normed, *turn), entering, rtol=0, atol=5e-6)
        assert attention._module.is_sliding is rotates


def test_without_a_window_every_block_rotates():
    model = tiny("exaone4", "sdpa", {"sliding_window": None, "layer_types": ["full_attention"] * 4})
    attention = model.layers[FULL].self_attn
    with model.trace(IDS):
        normed, queries = attention.q_norm.output, attention.attention_queries
    assert not torch.allclose(normed[:, :, 1:], queries[:, :, 1:], atol=1e-2)


def test_a_sliding_block_attends_within_its_window(model):
    window, length = model.config.sliding_window, IDS.shape[1]
    assert window < length
    near = torch.ones(length, length).tril().triu(1 - window)
    found = model.collect(IDS, [f"layers.{number}.self_attn.attention_probabilities" for number in (SLIDING, FULL)])
    sliding, full = found.values()
    assert torch.equal((sliding > 0).float(), near.expand_as(sliding))
    assert torch.equal((full > 0).float(), torch.ones(length, length).tril().expand_as(full))


def test_a_key_value_head_reaches_its_group(model):
    assert heads_reached(model, FULL, 0) == [0, 1]
    assert heads_reached(model, FULL, 1) == [2, 3]
