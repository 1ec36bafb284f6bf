"""The skip gate: it learns, in the right direction, saves work, and survives half precision."""

from __future__ import annotations

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens

import nnatlas
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.skip_gate import Apex1SkipGate


def test_d15_every_gate_gets_a_gradient():
    model, ids = tiny_model().train(), tokens(2, 16)
    model(ids, labels=ids).loss.backward()
    gates = {name: p.grad for name, p in model.named_parameters() if "skip_gate" in name}
    assert len(gates) == 24
    assert all(grad is not None and grad.norm() > 0 for grad in gates.values())


@pytest.mark.parametrize("helps", [1.0, -1.0])
@pytest.mark.parametrize("is_open", [True, False])
def test_d16_the_gate_rises_where_the_feed_forward_helps(helps, is_open):
    """Loss falls along the feed-forward's output if it helps: descent must raise the gate, open or closed."""
    config = Apex1Config(hidden_size=8, skip_gate_hidden_dim=4, skip_gate_threshold=0.15 if is_open else 0.95)
    gate, x = Apex1SkipGate(config).train(), torch.randn(1, 3, 8)
    added = gate(x, torch.nn.Identity(), torch.ones(1, 3, 8))
    assert (added != 0).all() == is_open
    (-helps * added.sum()).backward()
    up = -gate.gate_mlp[2].bias.grad
    assert up.sign() == helps


@torch.no_grad()
def test_d17_skipped_rows_are_not_computed_and_hooked_ones_are():
    model, ids, rows = tiny_model(num_hidden_layers=2, global_layer_freq=2), tokens(2, 32), []
    block = model.model.blocks[0]
    expected = model(ids).logits
    forward = block.ffn.forward
    block.ffn.forward = lambda x: rows.append(x.shape) or forward(x)
    assert torch.equal(model(ids).logits, expected)
    (computed,) = rows
    assert computed[0] == 1
    assert 4 < computed[1] < 60  # of 64 rows
    handle = block.ffn.register_forward_hook(lambda *_: None)
    torch.testing.assert_close(model(ids).logits, expected, atol=1e-5, rtol=0)
    assert rows[-1] == (2, 32, 32)
    handle.remove()


@torch.no_grad()
@pytest.mark.parametrize("value", [-50.0, 50.0])
def test_all_skipped_and_none_skipped(value):
    model = tiny_model(num_hidden_layers=2)
    for block in model.model.blocks:
        block.skip_gate.gate_mlp[2].bias.fill_(value)
    gated = model(tokens(1, 6)).logits
    for block in model.model.blocks:
        block.skip_gate = None
        if value < 0:
            block.ffn.forward = lambda x: torch.zeros_like(x)
    torch.testing.assert_close(model(tokens(1, 6)).logits, gated, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_d18_half_precision(dtype):
    torch.manual_seed(0)
    config = tiny_model().config
    model, ids = Apex1ForCausalLM(config).to(dtype), tokens(1, 12)
    output = model.train()(ids, labels=ids)
    assert output.logits.dtype == dtype
    assert output.loss.isfinite()
    output.loss.backward()
    assert model.eval()(ids).logits.isfinite().all()


@torch.no_grad()
def test_d18_autocast_with_some_rows_skipped():
    model, ids = tiny_model(num_hidden_layers=2, moe_enabled=False), tokens(2, 12)
    exact = model(ids).logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(ids).logits
    assert mixed.dtype == torch.bfloat16
    assert (mixed - exact).abs().median() < 0.03 * exact.abs().median()


@pytest.mark.parametrize("draft_width", [0, 8])
def test_d19_no_parameter_is_left_without_gradient(draft_width, tmp_path):
    """Data-parallel training stops over parameters that took no part: gates, experts without tokens, a draft chain."""
    made = tiny_model(num_local_experts=8, n_predict=2, draft_width=draft_width)
    made.save_pretrained(tmp_path)
    for model in (made, Apex1ForCausalLM.from_pretrained(tmp_path)):
        ids = tokens(1, 3)
        model.train()(ids, labels=ids).loss.backward()
        assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_every_law_holds_on_a_tiny_model_whose_gates_shut_some_tokens_out(implementation):
    model = nnatlas.load("tiny:apex1", attn_implementation=implementation)
    gates, added = [], []
    with model.trace(tokens(2, 12)):
        for layer in model.layers:
            gates.append(layer.mlp.mlp_gate.sigmoid())
            added.append(layer.mlp.mlp_output)
    shut = torch.stack(gates) < model.config.skip_gate_threshold
    assert 0 < shut.sum() < shut.numel() / 2
    assert torch.equal(torch.stack(added).ne(0).any(-1, keepdim=True), ~shut)
    assert model.check().failures == []


def test_a_row_that_names_another_gate_is_found_out():
    model = nnatlas.load("tiny:apex1")
    cells = {"mlp.mlp_gate": "block.skip_gate.gate_mlp.0 > out as batch seq channels"}
    kinds = tuple(
        one.remade(cells={**one.cells, **(cells if one.name == "gated" else {})}) for one in model.family.kinds
    )
    wrong = nnatlas.load(model._module, family=model.family.remade(kinds=kinds))
    assert ("chain", "mlp.mlp_output") in {(one.law, one.value) for one in wrong.check(laws=["chain"]).failures}
