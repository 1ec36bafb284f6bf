"""What the notes on Gemma 3's text model claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    built,
    default,
    logits,
    of_block,
    sandwich_norms,
    shapes,
    tiny,
    turn,
)
from tests.encyclopedia.claims.gemma2 import block_equations as gemma2_block
from tests.encyclopedia.claims.gemma2 import scaled_module_outputs_are_normed_away as normed_away
from tests.families.seed_pages import assert_reads_out_as_the_logits, rotated_halves
from transformers import Gemma3TextConfig

from nnatlas import families


def block_equations(model: Any) -> None:
    gemma2_block(model)


def scaled_module_outputs_are_normed_away(model: Any) -> None:
    normed_away(model)


def what_is_new(model: Any) -> None:
    sandwich_norms(model)
    older, newer = (one.layers[1].self_attn._module for one in (tiny("gemma2", "eager"), model))
    assert (hasattr(older, "q_norm"), hasattr(newer, "q_norm")) == (False, True)
    config = default(model)
    assert (config.attn_logit_softcapping, config.final_logit_softcapping) == (None, None)


def scale_is_a_field(model: Any) -> None:
    block = model.config.layer_types.index("full_attention") if "full_attention" in model.config.layer_types else 0
    queries, keys, scores = of_block(
        model, block, "self_attn.attention_queries self_attn.attention_keys self_attn.attention_scores"
    )
    assert model.config.query_pre_attn_scalar != model.qk_head_dim
    keys = keys.repeat_interleave(model.num_heads // model.num_kv_heads, 1)
    products, seen = queries @ keys.mT * model.config.query_pre_attn_scalar**-0.5, scores > -1e30
    torch.testing.assert_close(products[seen], scores[seen], rtol=1e-4, atol=1e-5)


def two_rotaries(model: Any) -> None:
    rope = default(model).rope_parameters
    assert rope["sliding_attention"]["rope_theta"] == 10_000
    assert rope["full_attention"]["rope_theta"] == 1_000_000
    for kind in ("sliding_attention", "full_attention"):
        other = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}[kind]
        for before, after in before_and_after_rotary(model, model.config.layer_types.index(kind)):
            torch.testing.assert_close(rotated_halves(before, *turn(model, kind)), after, rtol=0, atol=1e-5)
            assert (rotated_halves(before, *turn(model, other)) - after).abs().max() > 1e-3


def every_sixth_block_is_full(model: Any) -> None:
    types = Gemma3TextConfig(num_hidden_layers=26).layer_types
    assert [number for number, kind in enumerate(types) if kind == "full_attention"] == [5, 11, 17, 23]


def bidirectional_is_off(model: Any) -> None:
    assert default(model).use_bidirectional_attention is False
    both = tiny("gemma3_text", "eager", {"use_bidirectional_attention": True})
    (pattern,) = of_block(both, 0, "self_attn.attention_probabilities")
    assert pattern.triu(1).max() > 0
    (pattern,) = of_block(model, 0, "self_attn.attention_probabilities")
    assert pattern.triu(1).max() == 0


def default_sizes(model: Any) -> None:
    attention = built("gemma3_text", num_hidden_layers=1).model.layers[0].self_attn
    assert shapes(attention, ("q_proj.weight", "k_proj.weight")) == [(8 * 256, 2304), (4 * 256, 2304)]


def the_cap_on_scores_is_not_read(model: Any) -> None:
    plain, capped = (tiny("gemma3_text", "eager", {"attn_logit_softcapping": cap}) for cap in (None, 0.1))
    assert torch.equal(logits(plain), logits(capped))


def cap_follows_the_config(model: Any) -> None:
    assert default(model).final_logit_softcapping is None
    for cap in (None, 0.3):
        made = tiny("gemma3_text", "sdpa", {"final_logit_softcapping": cap})
        raw, given = made.collect(IDS, ["lm_head_output", "logits"]).values()
        torch.testing.assert_close(raw if cap is None else cap * torch.tanh(raw / cap), given)
        assert_reads_out_as_the_logits(made)


def kin_have_rows_of_their_own(model: Any) -> None:
    assert [families.find(name).name for name in ("gemma3", "gemma3n")] == ["gemma3", "gemma3n"]
    assert families.find("gemma3_text").name == "gemma3_text"
