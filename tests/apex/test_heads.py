"""Multi-token heads and the draft chain: what a draft is told, and that telling it pays and changes nothing else."""

from __future__ import annotations

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens
from tests.apex.test_generation import GREEDY, copying_model
from torch import nn
from torch.nn import functional as F

from nnatlas.apex.generation import MultiTokenDrafts, Speculation
from nnatlas.apex.modeling import Apex1ForCausalLM


@torch.no_grad()
def test_a_step_of_the_chain_in_plain_arithmetic():
    model = tiny_model(draft_width=16)
    chain, state, stream = model.multi_token_head.chain, torch.randn(3, 32), torch.randn(3, 32)
    placed = torch.tensor([5, 9, 60])
    moved, added = model.draft_step(state, stream, placed)
    normed = state / (state.square().mean(-1, keepdim=True) + 1e-6).sqrt() * chain.norm.weight
    read = torch.cat((normed, model.model.embedding.weight[placed] * 32**0.5), dim=-1)
    gate = read @ chain.W_gate.weight.T
    expected = state + (gate * gate.sigmoid() * (read @ chain.W_up.weight.T)) @ chain.W_down.weight.T
    torch.testing.assert_close(moved, expected)
    torch.testing.assert_close(added, (expected - stream) @ model.lm_head.weight.T * model.config.logit_scale)


def test_each_draft_is_told_the_token_before_it_and_goes_on_from_the_last_state():
    told = []

    def step(state, stream, placed):
        told.append((placed.item(), state.item(), stream.item()))
        return state + 1, F.one_hot(placed + 2, 64).float()

    drafts = MultiTokenDrafts(1, False, lambda ids, scores: scores, Speculation(), step)
    outputs = type(
        "Outputs", (), {"spec_logits": (torch.zeros(1, 2, 64),) * 3, "heads_read": torch.tensor([[[30.0], [7]]])}
    )
    ids, scores = drafts.get_candidates(torch.tensor([[8, 20]]), outputs, False, 0)
    assert told == [(20, 30, 30), (22, 31, 30)]
    assert ids.tolist() == [[8, 20, 22, 24]]
    assert scores.shape == (1, 2, 64)


class Telling(nn.Module):
    """Moves the stream by the placed token's embedding and by nothing else."""

    def forward(self, state: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        return state + embedded


@pytest.mark.parametrize("told, per_pass", [(True, 2.0), (False, 1.0)])
def test_heads_that_know_nothing_draft_well_once_told(told, per_pass):
    """A model that says x + 1, and one draft a pass: only the chain knows x."""
    model = copying_model(n_predict=2)
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        for head in model.multi_token_head.heads:
            head.weight.zero_()
    model.multi_token_head.chain = Telling() if told else None
    out = model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=17, use_mtp=True, **GREEDY)
    assert out[0].tolist() == list(range(3, 23))
    assert model.speculation.tokens_per_pass == per_pass


@pytest.mark.parametrize("first", [1, 2])
def test_greedy_speculation_with_a_chain_equals_greedy_past_the_window(first):
    model, ids = tiny_model(first_head_offset=first, draft_width=16), tokens(1, 5)
    model.generation_config.eos_token_id = None
    plain = model.generate(ids, max_new_tokens=30, **GREEDY)
    assert torch.equal(model.generate(ids, max_new_tokens=30, use_mtp=True, **GREEDY), plain)


@torch.no_grad()
def test_the_chain_is_saved_and_changes_no_logits(tmp_path):
    model, ids = tiny_model(draft_width=16), tokens(1, 9)
    model.save_pretrained(tmp_path)
    loaded = Apex1ForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(loaded.multi_token_head.chain.W_down.weight, model.multi_token_head.chain.W_down.weight)
    with_chain = model(ids)
    model.multi_token_head.chain = None
    without = model(ids)
    assert torch.equal(without.logits, with_chain.logits)
    assert all(map(torch.equal, without.spec_logits, with_chain.spec_logits))


def test_resizing_the_vocabulary_resizes_every_head():
    model, ids = tiny_model(draft_width=16), tokens(1, 9)
    model.generation_config.eos_token_id = None
    before = model(ids)
    model.resize_token_embeddings(70, mean_resizing=False)
    after = model(ids, labels=torch.full_like(ids, 69))
    assert after.loss.isfinite()
    for old, new in zip((before.logits, *before.spec_logits), (after.logits, *after.spec_logits), strict=True):
        assert new.shape == (1, 9, 70)
        torch.testing.assert_close(new[..., :64], old)
    assert model.lm_head.weight is model.model.embedding.weight
    plain = model.generate(ids, max_new_tokens=9, **GREEDY)
    assert torch.equal(model.generate(ids, max_new_tokens=9, use_mtp=True, **GREEDY), plain)
