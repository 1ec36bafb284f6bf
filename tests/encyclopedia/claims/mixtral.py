"""What the notes on Mixtral claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    billions,
    built,
    default,
    experts_sum_to_the_routed_output,
    of_block,
    pre_norms,
    rotary_of_halves,
    shapes,
    sparse_block,
    tiny,
)

from nnatlas import families
from nnatlas.traits import traits_of


def block_equations(model: Any) -> None:
    pre_norms(model)


def mixture_equations(model: Any) -> None:
    block = sparse_block(model)
    experts = model.layers[block].mlp.experts._module
    read, router, chosen, weights, written = of_block(
        model, block, "mlp_input mlp.router_logits mlp.expert_indices mlp.expert_weights mlp.mlp_output"
    )
    gate = model.layers[block].mlp.gate._module
    torch.testing.assert_close(read @ gate.weight.T, router)
    best = router.softmax(-1).topk(2, -1)
    assert torch.equal(best.indices, chosen)
    torch.testing.assert_close(best.values / best.values.sum(-1, keepdim=True), weights)
    by_hand = torch.zeros_like(written)
    for token in range(read.shape[1]):
        for expert, weight in zip(chosen[0, token], weights[0, token], strict=True):
            gated, up = (experts.gate_up_proj[expert] @ read[0, token]).chunk(2)
            by_hand[0, token] += weight * (experts.down_proj[expert] @ (torch.nn.functional.silu(gated) * up))
    torch.testing.assert_close(by_hand, written, rtol=1e-4, atol=1e-5)


def weights_of_the_chosen_sum_to_one(model: Any) -> None:
    (weights,) = of_block(model, 1, "mlp.expert_weights")
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert weights.shape[-1] == default(model).num_experts_per_tok == 2


def every_block_is_a_mixture(model: Any) -> None:
    assert all(hasattr(block.mlp, "router") for block in model.layers)
    assert "no shared experts" in model.support()["mlp.shared_expert_output"]


def best_expert_first(model: Any) -> None:
    (weights,) = of_block(model, 1, "mlp.expert_weights")
    assert (weights[..., 0] >= weights[..., 1]).all()
    assert (weights[..., 0] > weights[..., 1]).any()


def the_experts_are_all_there_is(model: Any) -> None:
    experts_sum_to_the_routed_output(model)
    assert torch.equal(*of_block(model, sparse_block(model), "mlp.routed_output mlp.mlp_output"))


def experts_are_stacked(model: Any) -> None:
    experts = model.layers[1].mlp.experts._module
    assert [name for name, _ in experts.named_parameters()] == ["gate_up_proj", "down_proj"]
    assert experts.down_proj.shape == (model.layers[1].mlp.num_experts, model.hidden_size, model.intermediate_size)
    for way in ("eager", "grouped_mm"):
        made = tiny("mixtral", "sdpa")
        made._module.set_experts_implementation(way)
        torch.testing.assert_close(*(of_block(one, 1, "mlp.routed_output")[0] for one in (model, made)))


def no_jitter_by_default(model: Any) -> None:
    assert default(model).router_jitter_noise == 0


def rotary_of_halves_with_a_large_base(model: Any) -> None:
    rotary_of_halves(model)
    assert default(model).rope_parameters["rope_theta"] == 1_000_000


def no_window_by_default(model: Any) -> None:
    assert default(model).sliding_window is None


def sizes_of_8x7b(model: Any) -> None:
    block = built("mixtral", num_hidden_layers=1).model.layers[0]
    assert shapes(block.self_attn, ("q_proj.weight", "k_proj.weight")) == [(4096, 4096), (1024, 4096)]
    assert block.mlp.experts.gate_up_proj.shape == (8, 2 * 14336, 4096)
    assert (default(model).num_hidden_layers, block.self_attn.head_dim) == (32, 128)


def parameters_of_8x7b(model: Any) -> None:
    whole = built("mixtral")
    expert = 3 * 4096 * 14336 / 1e9
    assert round(billions(whole), 1) == 46.7
    assert round(billions(whole) - 32 * 6 * expert, 1) == 12.9


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("qwen3_moe", "olmoe", "deepseek_v3", "gpt_oss")
    assert [families.find(name).name for name in kin] == list(kin)
    assert all("moe" in traits_of(name) for name in (*kin, "mixtral"))
