"""What the notes on Qwen 3 claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    built,
    default,
    gated_mlp,
    no_biases,
    pre_norms,
    shapes,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves
from transformers import Qwen3Config

from nnatlas import families


def block_equations(model: Any) -> None:
    pre_norms(model)
    gated_mlp(model)


def biases_are_gone(model: Any) -> None:
    no_biases(model)
    older = built("qwen2", num_hidden_layers=1).model.layers[0].self_attn
    assert [name for name in "qkvo" if getattr(older, f"{name}_proj").bias is not None] == ["q", "k", "v"]


def queries_and_keys(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        read = attention.input.clone()
    pairs = before_and_after_rotary(model, 1)
    for name, (unrotated, entering) in zip("qk", pairs, strict=True):
        heads = getattr(attention, f"{name}_proj")._module(read).unflatten(-1, (-1, width))
        normed = getattr(attention, f"{name}_norm")._module(heads).transpose(1, 2)
        torch.testing.assert_close(normed, unrotated)
        torch.testing.assert_close(rotated_halves(normed, *turn(model)), entering, rtol=0, atol=1e-5)


def native_norms_have_positions_first(model: Any) -> None:
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        native = attention.q_norm.output.clone()
        ours = attention.unrotated_queries.clone()
    assert native.shape == (1, IDS.shape[1], model.num_heads, model.qk_head_dim)
    assert torch.equal(native.transpose(1, 2), ours)


def the_window_is_off_by_default(model: Any) -> None:
    config = default(model)
    assert config.use_sliding_window is False
    assert set(config.layer_types) == {"full_attention"}
    assert Qwen3Config(sliding_window=8).sliding_window is None


def the_window_starts_at_a_block(model: Any) -> None:
    types = Qwen3Config(use_sliding_window=True, num_hidden_layers=36).layer_types
    assert types.index("sliding_attention") == types.count("full_attention") == 28
    (pattern,) = model.collect(IDS, "layers.1.self_attn.attention_probabilities").values()
    assert model.config.layer_types[1] == "sliding_attention"
    assert (pattern[0, 0, -1] > 0).sum() == model.config.sliding_window


def heads_may_be_wider_than_the_stream(model: Any) -> None:
    made = built(
        "qwen3",
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=1,
        num_attention_heads=16,
        num_key_value_heads=8,
    )
    attention = made.model.layers[0].self_attn
    assert shapes(attention, ("q_proj.weight", "k_proj.weight", "o_proj.weight")) == [
        (2048, 1024),
        (1024, 1024),
        (1024, 2048),
    ]


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("qwen3_moe", "qwen3_next", "qwen3_vl", "qwen2")
    assert [families.find(name).name for name in kin] == list(kin)
    assert families.find("qwen3_5").name == "qwen3_next"
    assert hasattr(tiny("qwen3_moe", "sdpa").layers[1].mlp, "router")
