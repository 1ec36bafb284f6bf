"""What the notes on Helium claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    before_and_after_rotary,
    built,
    default,
    every_head_has_its_own_keys,
    gated_mlp,
    pre_norms,
    root_mean_square,
    shapes,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves, rotated_pairs


def block_equations(model: Any) -> None:
    pre_norms(model)
    gated_mlp(model)
    assert isinstance(model.layers[1].mlp.act_fn._module(torch.tensor(1.0)), torch.Tensor)
    torch.testing.assert_close(model.layers[1].mlp.act_fn._module(torch.tensor(1.0)), torch.tensor(1.0).sigmoid())


def the_gain_is_applied_in_float32(model: Any) -> None:
    for helium, model_type in ((True, "helium"), (False, "llama")):
        norm = type(tiny(model_type, "sdpa").layers[0].attention_norm._module)(64).bfloat16()
        norm.weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(1))
        x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
        wide = root_mean_square(x, norm.variance_epsilon)
        assert torch.equal(norm(x), (norm.weight.float() * wide).bfloat16()) is helium
        assert torch.equal(norm(x), norm.weight * wide.bfloat16()) is not helium


def default_epsilon(model: Any) -> None:
    assert default(model).rms_norm_eps == 1e-8
    assert default(tiny("llama", "sdpa")).rms_norm_eps == 1e-6


def neighbours_turn_together(model: Any) -> None:
    for before, after in before_and_after_rotary(model, 1):
        cos, sin = turn(model)
        torch.testing.assert_close(rotated_pairs(before, cos, sin), after, rtol=0, atol=1e-5)
        assert (rotated_halves(before, cos, sin) - after).abs().max() > 0.05


def evens_then_odds_is_the_order_of_halves(model: Any) -> None:
    width = model.qk_head_dim
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    (queries, turned_queries), (_, turned_keys) = before_and_after_rotary(model, 1)
    turned = rotated_halves(queries[..., order], *turn(model))
    torch.testing.assert_close(turned, turned_queries[..., order], rtol=0, atol=1e-5)
    keys = turned_keys.repeat_interleave(model.num_heads // model.num_kv_heads, 1)
    torch.testing.assert_close((turned_queries[..., order] @ keys[..., order].mT), turned_queries @ keys.mT)


def default_rotary(model: Any) -> None:
    assert default(model).rope_parameters["rope_theta"] == 100_000
    assert default(model).max_position_embeddings == 4096


def sizes_of_the_preview(model: Any) -> None:
    made = built("helium")
    block = made.model.layers[0]
    assert (len(made.model.layers), block.self_attn.head_dim) == (24, 128)
    assert shapes(block.self_attn, ("q_proj.weight", "k_proj.weight", "v_proj.weight")) == [(20 * 128, 2560)] * 3


def an_edit_reaches_one_head(model: Any) -> None:
    every_head_has_its_own_keys(tiny("helium", "sdpa", {"num_key_value_heads": 4, "head_dim": 16}))
