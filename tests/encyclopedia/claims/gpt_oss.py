"""What the notes on gpt-oss claim."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    billions,
    built,
    default,
    of_block,
    pre_norms,
    shapes,
    sparse_block,
    tiny,
)
from tests.families.seed_pages import rotated_halves

import nnatlas
from nnatlas.traits import having, traits_of


def block_equations(model: Any) -> None:
    pre_norms(model)


def mixture_equations(model: Any) -> None:
    block = sparse_block(model)
    experts, router = (getattr(model.layers[block].mlp, name)._module for name in ("experts", "router"))
    read, scores, chosen, weights, written = of_block(
        model, block, "mlp_input mlp.router_logits mlp.expert_indices mlp.expert_weights mlp.mlp_output"
    )
    torch.testing.assert_close(read @ router.weight.T + router.bias, scores)
    best = scores.topk(weights.shape[-1], -1)
    assert torch.equal(best.indices, chosen)
    torch.testing.assert_close(best.values.softmax(-1), weights)
    config, by_hand = model.config, torch.zeros_like(written)
    for token in range(read.shape[1]):
        for expert, weight in zip(chosen[0, token], weights[0, token], strict=True):
            both = read[0, token] @ experts.gate_up_proj[expert] + experts.gate_up_proj_bias[expert]
            gate, up = (
                both[::2].clamp(max=config.swiglu_limit),
                both[1::2].clamp(-config.swiglu_limit, config.swiglu_limit),
            )
            neurons = (up + 1) * gate * torch.sigmoid(config.swiglu_alpha * gate)
            by_hand[0, token] += weight * (neurons @ experts.down_proj[expert] + experts.down_proj_bias[expert])
    torch.testing.assert_close(by_hand, written, rtol=1e-4, atol=1e-5)
    assert (default(model).swiglu_alpha, default(model).swiglu_limit) == (1.702, 7.0)
    assert default(model).num_experts_per_tok == 4


def weights_of_the_chosen_sum_to_one(model: Any) -> None:
    scores, chosen, weights = of_block(model, 1, "mlp.router_logits mlp.expert_indices mlp.expert_weights")
    torch.testing.assert_close(scores.gather(-1, chosen).softmax(-1), weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def gate_and_up_are_interleaved(model: Any) -> None:
    experts = model.layers[1].mlp.experts._module
    both = torch.arange(2.0 * experts.intermediate_size)
    gate, up = both[::2].clamp(max=experts.limit), both[1::2].clamp(-experts.limit, experts.limit)
    torch.testing.assert_close(experts._apply_gate(both), (up + 1) * gate * torch.sigmoid(gate * experts.alpha))
    assert {name for name, _ in experts.named_parameters()} >= {"gate_up_proj_bias", "down_proj_bias"}
    attention = built("gpt_oss", num_hidden_layers=1).model.layers[0].self_attn
    assert all(getattr(attention, f"{name}_proj").bias is not None for name in "qkvo")


def rows_sum_to_less_than_one(model: Any) -> None:
    for block in range(model.num_layers):
        (pattern,) = of_block(model, block, "self_attn.attention_probabilities")
        assert pattern.sum(-1).max() < 1 - 1e-6
        assert pattern.sum(-1).min() < 0.95
    assert model.layers[1].self_attn._module.sinks.shape == (model.num_heads,)


def scores_have_the_sinks_column(model: Any) -> None:
    scores, pattern = of_block(model, 1, "self_attn.attention_scores self_attn.attention_probabilities")
    assert scores.shape[-1] == IDS.shape[1] + 1
    torch.testing.assert_close(scores.softmax(-1)[..., :-1], pattern)
    assert torch.equal(scores.amax(-1), torch.zeros(scores.shape[:-1]))
    queries, keys = of_block(model, 1, "self_attn.attention_queries self_attn.attention_keys")
    products = queries @ keys.repeat_interleave(2, 1).mT * model.qk_head_dim**-0.5
    sink = model.layers[1].self_attn._module.sinks
    before_sink = scores[0, :, 0, 0] - scores[0, :, 0, -1]  # the first token sees itself and the sink
    torch.testing.assert_close(before_sink, products[0, :, 0, 0] - sink, rtol=1e-4, atol=1e-4)


def a_sink_can_starve_its_head(model: Any) -> None:
    starved = tiny("gpt_oss", "eager")
    attention = starved.layers[1].self_attn
    attention._module.sinks.data[1] = 50.0
    pattern, outputs = of_block(starved, 1, "self_attn.attention_probabilities self_attn.attention_head_outputs")
    assert pattern[:, 1].max() < 1e-12
    assert outputs[:, :, 1].abs().max() < 1e-9
    assert pattern[:, 0].sum(-1).min() > 0.01


def yarn_by_default(model: Any) -> None:
    config = default(model)
    rope = config.rope_parameters
    assert (rope["rope_type"], rope["factor"], rope["original_max_position_embeddings"]) == ("yarn", 32.0, 4096)
    assert (rope["rope_theta"], config.max_position_embeddings) == (150_000, 131_072)
    rotary = model._module.model.rotary_emb
    cos, sin = (one[0] for one in rotary(model.embed_tokens._module.weight, torch.arange(IDS.shape[1])[None]))
    for before, after in before_and_after_rotary(model, 1):
        torch.testing.assert_close(rotated_halves(before, cos, sin), after, rtol=0, atol=1e-5)


def the_rotary_lengthens(model: Any) -> None:
    rotary = model._module.model.rotary_emb
    assert type(rotary)(default(model)).attention_scaling == pytest.approx(0.1 * math.log(32) + 1)
    assert (0.1 * math.log(32) + 1) ** 2 == pytest.approx(1.81, abs=0.005)
    for before, after in before_and_after_rotary(model, 1):
        torch.testing.assert_close(after.norm(dim=-1), rotary.attention_scaling * before.norm(dim=-1))


def every_second_block_slides(model: Any) -> None:
    config = default(model)
    assert config.layer_types == ["sliding_attention", "full_attention"] * 18
    assert config.sliding_window == 128
    window, causal = model.config.sliding_window, torch.ones(IDS.shape[1], IDS.shape[1]).tril()
    for block, kind in enumerate(model.config.layer_types):
        (pattern,) = of_block(model, block, "self_attn.attention_probabilities")
        seen = causal.triu(1 - window) if kind == "sliding_attention" else causal
        assert torch.equal((pattern > 0).float(), seen.expand_as(pattern))


def both_kinds_have_sinks(model: Any) -> None:
    for kind in ("sliding_attention", "full_attention"):
        (scores,) = of_block(model, model.config.layer_types.index(kind), "self_attn.attention_scores")
        assert scores.shape[-1] == IDS.shape[1] + 1


def default_sizes(model: Any) -> None:
    attention = built("gpt_oss", num_hidden_layers=1).model.layers[0].self_attn
    wanted = [(64 * 64, 2880), (8 * 64, 2880), (2880, 4096)]
    assert shapes(attention, ("q_proj.weight", "k_proj.weight", "o_proj.weight")) == wanted


def parameters_of_120b(model: Any) -> None:
    assert round(billions(built("gpt_oss")), 1) == 116.8


def eager_by_default(model: Any) -> None:
    assert model.config._attn_implementation == "eager"
    with pytest.raises((ValueError, nnatlas.AtlasError), match=r"(?i)sdpa|scaled_dot_product"):
        nnatlas.load("tiny:gpt_oss", attn_implementation="sdpa")


def the_trait_lists_sinks(model: Any) -> None:
    assert "sinks" in traits_of("gpt_oss")
    assert len(having(["sinks"])) > 3
