"""What the notes on DeepSeek 3 claim."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import (
    IDS,
    billions,
    built,
    default,
    gated_mlp,
    of_block,
    pre_norms,
    sparse_block,
    tiny,
    turn,
)
from tests.families.seed_pages import split_heads

from nnatlas import families
from nnatlas.errors import ReadOnly

DENSE = 0


def block_equations(model: Any) -> None:
    pre_norms(model)


def first_blocks_are_dense(model: Any) -> None:
    config = default(model)
    assert (config.first_k_dense_replace, config.num_hidden_layers) == (3, 61)
    sparse = [hasattr(block.mlp, "router") for block in model.layers]
    assert sparse == [number >= model.config.first_k_dense_replace for number in range(model.num_layers)]
    assert any(sparse)
    assert not all(sparse)
    dense = model.layers[DENSE].mlp
    with model.trace(IDS):
        gate, up, neurons = dense.mlp_activation.clone(), dense.up_proj.output.clone(), dense.mlp_neurons.clone()
    torch.testing.assert_close(gate * up, neurons)


def read_by_attention(model: Any) -> torch.Tensor:
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        return attention.input.clone()


def latent_attention(model: Any) -> None:
    native, config = model.layers[1].self_attn._module, model.config
    read = read_by_attention(model)
    latent, keys, values, queries = of_block(
        model,
        1,
        "self_attn.attention_latent self_attn.attention_keys self_attn.attention_values self_attn.attention_queries",
    )
    compressed, rope_key = native.kv_a_proj_with_mqa(read).split([config.kv_lora_rank, config.qk_rope_head_dim], -1)
    torch.testing.assert_close(native.kv_a_layernorm(compressed), latent)
    expanded = split_heads(native.kv_b_proj(latent), config.qk_nope_head_dim + config.v_head_dim)
    plain, valued = expanded.split([config.qk_nope_head_dim, config.v_head_dim], -1)
    torch.testing.assert_close(valued, values)
    torch.testing.assert_close(plain, keys[..., : config.qk_nope_head_dim])
    turned = as_halves(model, rope_key[:, None])
    torch.testing.assert_close(
        turned.expand(-1, model.num_heads, -1, -1), keys[..., config.qk_nope_head_dim :], rtol=0, atol=1e-5
    )
    projected = split_heads(native.q_b_proj(native.q_a_layernorm(native.q_a_proj(read))), config.qk_head_dim)
    still, rope_query = projected.split([config.qk_nope_head_dim, config.qk_rope_head_dim], -1)
    torch.testing.assert_close(torch.cat((still, as_halves(model, rope_query)), -1), queries, rtol=0, atol=1e-5)


def as_halves(model: Any, pairs: torch.Tensor) -> torch.Tensor:
    """Neighbouring pairs turned, and written out as evens, then odds."""
    cos, sin = turn(model, width=model.config.qk_rope_head_dim)
    even, odd = pairs[..., 0::2], pairs[..., 1::2]
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), -1)


def keys_and_values_come_from_the_latent(model: Any) -> None:
    (latent,) = of_block(model, 1, "self_attn.attention_latent")
    assert latent.shape == (1, IDS.shape[1], model.config.kv_lora_rank)
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        attention.attention_latent = 0.0
        keys, values = attention.attention_keys.clone(), attention.attention_values.clone()
    assert values.abs().max() == 0
    assert keys[..., : model.config.qk_nope_head_dim].abs().max() == 0
    assert keys[..., model.config.qk_nope_head_dim :].abs().max() > 0


def sizes_of_the_cache(model: Any) -> None:
    config = default(model)
    per_head = config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim
    assert (config.kv_lora_rank, config.qk_rope_head_dim) == (512, 64)
    assert config.num_attention_heads * per_head == 40_960
    cache = model._module(IDS, use_cache=True).cache
    kept = [cache.layers[1].keys.shape[-1], cache.layers[1].values.shape[-1]]
    assert kept == [model.config.kv_lora_rank, model.config.qk_rope_head_dim]


def an_edit_of_the_latent_reaches_all_heads(model: Any) -> None:
    attention = model.layers[1].self_attn
    before = of_block(model, 1, "self_attn.attention_keys self_attn.attention_values")
    with model.trace(IDS):
        attention.attention_latent[:, 2] += 1
        after = attention.attention_keys.clone(), attention.attention_values.clone()
    for one, other in zip(before, after, strict=True):
        moved = (one - other).abs().amax((0, 3))  # [heads, seq]
        assert (moved[:, 2] > 1e-4).all()
        assert moved[:, [0, 1, *range(3, IDS.shape[1])]].max() == 0


def two_head_widths(model: Any) -> None:
    config = default(model)
    assert (config.qk_head_dim, config.qk_nope_head_dim, config.v_head_dim) == (192, 128, 128)
    queries, values = of_block(model, 1, "self_attn.attention_queries self_attn.attention_values")
    assert queries.shape[-1] == model.qk_head_dim == 2 * values.shape[-1] == 2 * model.head_dim


def latents_are_normed(model: Any) -> None:
    names = dict(model.layers[1].self_attn._module.named_children())
    assert {"q_a_layernorm", "kv_a_layernorm"} <= set(names)
    (latent,) = of_block(model, 1, "self_attn.attention_latent")
    sizes = (latent / names["kv_a_layernorm"].weight).square().mean(-1)
    torch.testing.assert_close(sizes, torch.ones_like(sizes), rtol=0, atol=0.05)


def one_rotary_key_for_all_heads(model: Any) -> None:
    (keys,) = of_block(model, 1, "self_attn.attention_keys")
    plain, turned = keys.split([model.config.qk_nope_head_dim, model.config.qk_rope_head_dim], -1)
    assert torch.equal(turned, turned[:, :1].expand_as(turned))
    assert not torch.allclose(plain, plain[:, :1].expand_as(plain), atol=1e-2)


def pairs_come_out_as_halves(model: Any) -> None:
    before, after = of_block(model, 1, "self_attn.unrotated_queries self_attn.attention_queries")
    plain = model.config.qk_nope_head_dim
    assert torch.equal(before[..., :plain], after[..., :plain])
    first, placed = before[:, :, 0, plain:], after[:, :, 0, plain:]
    assert torch.equal(torch.cat((first[..., 0::2], first[..., 1::2]), -1), placed)
    assert not torch.equal(first, placed)


def unrotated_keys_are_joined(model: Any) -> None:
    before, after = of_block(model, 1, "self_attn.unrotated_keys self_attn.attention_keys")
    plain = model.config.qk_nope_head_dim
    assert torch.equal(before[..., :plain], after[..., :plain])
    first, placed = before[:, :, 0, plain:], after[:, :, 0, plain:]
    assert torch.equal(torch.cat((first[..., 0::2], first[..., 1::2]), -1), placed)
    with pytest.raises(ReadOnly), model.trace(IDS):
        model.layers[1].self_attn.unrotated_keys = before


def mixture_equations(model: Any) -> None:
    block = sparse_block(model)
    mlp = model.layers[block].mlp
    router = mlp.router._module
    read, scores, chosen, weights, shared, written = of_block(
        model,
        block,
        "mlp_input mlp.router_logits mlp.expert_indices mlp.expert_weights mlp.shared_expert_output mlp.mlp_output",
    )
    torch.testing.assert_close(read @ router.weight.T, scores)
    chosen_scores = scores.sigmoid().gather(-1, chosen)
    by_hand = model.config.routed_scaling_factor * chosen_scores / chosen_scores.sum(-1, keepdim=True)
    torch.testing.assert_close(by_hand, weights)
    (routed,) = of_block(model, block, "mlp.routed_output")
    torch.testing.assert_close(routed + shared, written)
    config = default(model)
    assert (config.num_experts_per_tok, config.n_group, config.topk_group) == (8, 8, 4)


def two_parts_of_a_mixture(model: Any) -> None:
    routed, shared, written = of_block(
        model, sparse_block(model), "mlp.routed_output mlp.shared_expert_output mlp.mlp_output"
    )
    torch.testing.assert_close(routed + shared, written)
    assert routed.norm() > 1e-3
    assert shared.norm() > 1e-3


def a_router(model: Any, **changed: Any) -> Any:
    """The model's router alone, with some numbers changed."""
    router = model.layers[sparse_block(model)].mlp.router._module
    alone = type(router)(model.config)
    alone.load_state_dict(router.state_dict())
    for name, value in changed.items():
        setattr(alone, name, value)
    return alone


def the_bias_chooses_and_does_not_weigh(model: Any) -> None:
    x = torch.randn(20, model.hidden_size, generator=torch.Generator().manual_seed(0))
    plain = a_router(model)
    plain.e_score_correction_bias.zero_()
    pushed = a_router(model)
    pushed.e_score_correction_bias.zero_()
    pushed.e_score_correction_bias[-1] = 100
    (scores, weights, chosen), (_, _, before) = pushed(x), plain(x)
    assert (chosen == pushed.num_experts - 1).any(-1).all()
    assert not (before == pushed.num_experts - 1).any(-1).all()
    picked = scores.sigmoid().gather(-1, chosen)
    torch.testing.assert_close(weights, pushed.routed_scaling_factor * picked / picked.sum(-1, keepdim=True))


def groups_are_chosen_first(model: Any) -> None:
    x = torch.randn(20, model.hidden_size, generator=torch.Generator().manual_seed(0))
    router = a_router(model, num_group=2, topk_group=1)
    router.e_score_correction_bias.zero_()
    scores, _, chosen = router(x)
    best = scores.sigmoid().unflatten(-1, (2, -1)).topk(2, -1).values.sum(-1).argmax(-1)
    assert torch.equal(chosen // (router.num_experts // 2), best[:, None].expand_as(chosen))


def weights_sum_to_the_factor(model: Any) -> None:
    (weights,) = of_block(model, sparse_block(model), "mlp.expert_weights")
    torch.testing.assert_close(
        weights.sum(-1), torch.full(weights.shape[:-1], float(model.config.routed_scaling_factor))
    )
    assert default(model).routed_scaling_factor == 2.5
    assert model.config.routed_scaling_factor != 1


def parameters_of_671b(model: Any) -> None:
    assert round(billions(built("deepseek_v3"))) == 671


def what_the_row_covers(model: Any) -> None:
    names = ("deepseek_v3", "kimi_k25", "glm4_moe_lite", "sarvam_mla", "youtu")
    assert {families.find(name).name for name in names} == {"deepseek_v3"}


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("deepseek_v32", "deepseek_v2", "deepseek_v4")
    assert [families.find(name).name for name in kin] == list(kin)
    assert tiny("deepseek_v32", "eager").support()["self_attn.indexer_choice"] is None
    gated_mlp(tiny("deepseek_v3", "eager", {"first_k_dense_replace": 4}))


def yarn_scales_the_scores(model: Any) -> None:
    rope = dict(rope_type="yarn", rope_theta=10_000.0, factor=40.0, mscale=1.0, mscale_all_dim=1.0,
                beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=4096)  # fmt: skip
    stretched = built("deepseek_v3", num_hidden_layers=1, rope_parameters=rope).model
    attention = stretched.layers[0].self_attn
    assert attention.scaling * attention.qk_head_dim**0.5 == pytest.approx((0.1 * math.log(40) + 1) ** 2)
    assert (0.1 * math.log(40) + 1) ** 2 == pytest.approx(1.87, abs=0.005)
    assert stretched.rotary_emb.attention_scaling == 1.0
