"""Experts: the bias chooses and does not weigh, is saved, counts every micro-batch; implementations agree."""

from __future__ import annotations

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens

from nnatlas.apex.balancing import update_expert_bias
from nnatlas.apex.feedforward import Apex1MoE
from nnatlas.apex.modeling import Apex1ForCausalLM


def first_moe(model) -> Apex1MoE:
    return model.model.blocks[1].ffn


@torch.no_grad()
def test_e20_the_bias_selects_and_does_not_weigh():
    router, x = first_moe(tiny_model()).router, torch.randn(200, 32)
    logits, weights, indices = router(x, torch.zeros(4))
    bias = torch.tensor([0.4, -0.3, 0.2, 0.0])
    same_logits, biased_weights, biased_indices = router(x, bias)
    assert torch.equal(logits, same_logits)
    kept = indices.sort().values.eq(biased_indices.sort().values).all(-1)
    assert 20 < kept.sum() < 200  # some tokens changed experts, and some did not
    by_expert = lambda w, i: torch.zeros(200, 4).scatter(1, i, w)[kept]
    torch.testing.assert_close(by_expert(biased_weights, biased_indices), by_expert(weights, indices))
    legacy = first_moe(tiny_model(legacy_expert_weights=True)).router
    legacy.load_state_dict(router.state_dict())
    _, old_weights, old_indices = legacy(x, bias)
    assert torch.equal(old_indices, biased_indices)
    assert (old_weights - biased_weights).abs().max() > 0.03


@torch.no_grad()
def test_e21_the_bias_is_saved_with_the_weights(tmp_path):
    model, ids = tiny_model(), tokens(1, 12)
    assert first_moe(model).expert_bias.abs().max() > 0.1
    model.save_pretrained(tmp_path)
    loaded = Apex1ForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    half = Apex1ForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert torch.equal(first_moe(half).expert_bias, first_moe(model).expert_bias)  # 1e-3 steps need float32


def test_e22_every_micro_batch_counts_and_padding_does_not():
    model, ids = tiny_model(skip_gate_enabled=False).train(), tokens(4, 10)
    moe = first_moe(model)
    mask = torch.ones_like(ids)
    mask[:, :3] = 0
    chosen = []
    handle = moe.router.register_forward_hook(lambda _m, _a, out: chosen.append(out[2]))
    for part in range(4):
        model(ids[part : part + 1], attention_mask=mask[part : part + 1])
    handle.remove()
    expected = torch.bincount(torch.cat([c[3:] for c in chosen]).flatten(), minlength=4)
    assert torch.equal(moe.expert_load, expected)
    assert int(moe.expert_load.sum()) == 4 * 7 * 2
    before = moe.expert_bias.clone()
    update_expert_bias(model)
    moved = ((moe.expert_bias - before) / model.config.balancer_alpha).round()
    assert torch.equal(moved, torch.sign(4 * 7 * 2 / 4 - expected))
    assert moe.expert_load is None


def test_balancing_evens_out_the_load():
    model, ids = tiny_model(balancer_alpha=0.05, skip_gate_enabled=False).train(), tokens(8, 32)
    moe = first_moe(model)

    def unevenness() -> float:
        with torch.no_grad():
            model(ids)
        load = moe.expert_load / moe.expert_load.sum()
        update_expert_bias(model)
        return float(load.max() - load.min())

    moe.expert_bias.copy_(torch.tensor([0.9, 0.0, -0.9, 0.0]))
    start = unevenness()
    for _ in range(40):
        end = unevenness()
    assert end < start / 3


@torch.no_grad()
@pytest.mark.parametrize("tokens_at_once", [1, 7, 40])
def test_e23_expert_implementations_agree(tokens_at_once):
    model, ids = tiny_model(num_local_experts=8), tokens(1, tokens_at_once)
    outputs = []
    for implementation in ("eager", "grouped_mm", "batched_mm"):
        model.set_experts_implementation(implementation)
        outputs.append(model(ids).logits)
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], atol=1e-4, rtol=0)


def test_e23_grouped_is_the_default():
    assert tiny_model().config._experts_implementation == "grouped_mm"


def test_e24_experts_are_as_wide_as_the_dense_block():
    """Kept from the document, and why the counts are what they are (F25)."""
    experts = first_moe(tiny_model()).routed_experts
    assert experts.gate_up_proj.shape == (4, 2 * 24, 32)
    assert experts.down_proj.shape == (4, 32, 24)
