"""What the notes on OLMo 2 claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    gated_mlp,
    of_block,
    post_norms,
    root_mean_square,
    rotary_of_halves,
    tiny,
    turn,
)
from tests.encyclopedia.claims.exaone4 import contributions_are_the_norms_outputs as norms_outputs
from tests.encyclopedia.claims.exaone4 import relative
from tests.encyclopedia.claims.exaone4 import small_outputs_escape_the_norm as small_outputs
from tests.families.seed_pages import rotated_halves, split_heads
from transformers import Olmo3Config

from nnatlas import families


def block_equations(model: Any) -> None:
    post_norms(model)
    gated_mlp(model)


def the_gain_is_applied_in_float32(model: Any) -> None:
    norm = type(model.layers[0].attention_post_norm._module)(64).bfloat16()
    norm.weight.data.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(1))
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    wide = root_mean_square(x, norm.variance_epsilon)
    assert torch.equal(norm(x), (norm.weight * wide).bfloat16())
    assert not torch.equal(norm(x), norm.weight * wide.bfloat16())


def contributions_are_the_norms_outputs(model: Any) -> None:
    norms_outputs(model)


def small_outputs_escape_the_norm(model: Any) -> None:
    small_outputs(model)


def gains_bound_the_contributions(model: Any) -> None:
    block = model.layers[1]
    largest = block.mlp_post_norm._module.weight.abs().max()
    with model.trace(IDS):
        block.mlp.output[:] *= 1e6
        added = block.mlp.mlp_output.clone()
    assert added.square().mean(-1).sqrt().max() <= largest * 1.0001
    assert added.abs().max() > 0.1


def queries_and_keys(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        read = attention.input.clone()
    for name, (unrotated, entering) in zip("qk", before_and_after_rotary(model, 1), strict=True):
        normed = getattr(attention, f"{name}_norm")._module(getattr(attention, f"{name}_proj")._module(read))
        torch.testing.assert_close(split_heads(normed, width), unrotated)
        torch.testing.assert_close(rotated_halves(unrotated, *turn(model)), entering, rtol=0, atol=1e-5)


def one_norm_across_heads(model: Any) -> None:
    attention = model.layers[1].self_attn
    assert attention.q_norm._module.weight.shape == (model.num_heads * model.qk_head_dim,)
    assert attention.k_norm._module.weight.shape == (model.num_kv_heads * model.qk_head_dim,)
    (queries, _), _ = before_and_after_rotary(model, 1)
    plain = queries.transpose(1, 2).flatten(2) / attention.q_norm._module.weight
    torch.testing.assert_close(plain.square().mean(-1), torch.ones(plain.shape[:-1]), rtol=0, atol=0.02)
    alone = plain.unflatten(-1, (model.num_heads, -1)).square().mean(-1)
    assert alone.max() > 1.1


def queries(model: Any, scale: float, heads: slice) -> torch.Tensor:
    """The queries when a part of the query projection is scaled."""
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        attention.q_proj.output.unflatten(-1, (-1, width))[:, :, heads] *= scale
        return attention.attention_queries.clone()


def heads_share_their_norm(model: Any) -> None:
    before, after = queries(model, 1, slice(0, 1)), queries(model, 3, slice(0, 1))
    assert (after[:, 0].norm(dim=-1) > before[:, 0].norm(dim=-1)).all()
    assert (after[:, 1:].norm(dim=-1) < before[:, 1:].norm(dim=-1)).all()


def a_scale_on_all_heads_is_undone(model: Any) -> None:
    assert relative(queries(model, 1, slice(None)), queries(model, 3, slice(None))) < 1e-3


def queries_can_be_edited_alone(model: Any) -> None:
    attention = model.layers[1].self_attn
    (before,) = of_block(model, 1, "self_attn.attention_probabilities")
    with model.trace(IDS):
        attention.attention_queries[:, 1] *= 2
        after = attention.attention_probabilities.clone()
    assert torch.equal(before[:, [0, 2, 3]], after[:, [0, 2, 3]])
    assert not torch.allclose(before[:, 1], after[:, 1], atol=1e-3)


def olmo3_slides(model: Any) -> None:
    config = Olmo3Config()
    assert config.layer_types[:4] == ["sliding_attention"] * 3 + ["full_attention"]
    assert config.sliding_window == 4096
    later = tiny("olmo3", "sdpa")
    post_norms(later)
    sliding = later.config.layer_types.index("sliding_attention")
    (pattern,) = of_block(later, sliding, "self_attn.attention_probabilities")
    assert (pattern[0, 0, -1] > 0).sum() == later.config.sliding_window
    rotary_of_halves(model)


def what_the_row_covers(model: Any) -> None:
    assert {families.find(name).name for name in ("olmo2", "olmo3", "flex_olmo")} == {"olmo2"}


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("olmo", "olmoe", "olmo_hybrid")
    assert [families.find(name).name for name in kin] == list(kin)
    first = tiny("olmo", "sdpa")
    assert list(first.layers[1].attention_norm._module.parameters()) == []
    assert first.support()["block.attention_norm_output"] is None
