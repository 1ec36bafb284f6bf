"""Tuning the draft chain: it pays over heads alone, greedily and sampled, and touches nothing but heads and chain."""

from __future__ import annotations

import pytest
import torch
from tests.apex.small_models import lively
from tests.apex.training.test_heads import IDS, RECIPE
from tests.apex.training.test_run import MODEL

from nnatlas.apex import Apex1Config, Apex1ForCausalLM
from nnatlas.apex.training.draft_chain import add_chain, draft_loss, tune_draft_chain
from nnatlas.apex.training.heads import pieces_of
from nnatlas.apex.training.measure import tokens_per_pass

TUNING = RECIPE.but(draft_steps=150, draft_width=32, draft_rate=1e-2)


def lively_model() -> Apex1ForCausalLM:
    """Next tokens that depend on those before, and are not certain."""
    return lively(Apex1ForCausalLM(Apex1Config(vocab_size=64, **(MODEL | {"logit_scale": 0.7}))))


@pytest.fixture(scope="module")
def tuned() -> tuple[Apex1ForCausalLM, list[float]]:
    model = lively_model()
    return model, tune_draft_chain(model, IDS, TUNING)


@pytest.mark.parametrize("sampled", [False, True])
def test_drafts_come_true_more_often_than_by_heads_alone(tuned, sampled):
    model, losses = tuned
    prompts = pieces_of(IDS, 5, 8, torch.Generator().manual_seed(1)).tolist()
    with_chain = tokens_per_pass(model, prompts, sampled, 48)
    chain, model.multi_token_head.chain = model.multi_token_head.chain, None
    alone = tokens_per_pass(model, prompts, sampled, 48)
    model.multi_token_head.chain = chain
    assert with_chain > alone + 0.05
    assert len(losses) == 150
    assert losses[-1] < losses[0] - 3


def test_nothing_but_heads_and_chain_changes(tuned):
    before, after = lively_model().state_dict(), tuned[0].state_dict()
    assert {name for name in after if name not in before or not torch.equal(before[name], after[name])} == {
        *(f"multi_token_head.heads.{k}.weight" for k in range(2)),
        *(f"multi_token_head.chain.{name}.weight" for name in ("norm", "W_gate", "W_up", "W_down")),
    }
    assert all(p.grad is None for name, p in tuned[0].named_parameters() if "multi_token_head" not in name)
    assert tuned[0].config.draft_width == 32


def test_the_seed_decides_everything(tuned):
    again = lively_model()
    torch.rand(7)
    assert tune_draft_chain(again, IDS, TUNING) == tuned[1]


@torch.no_grad()
def test_the_loss_is_each_heads_own_and_the_chains_at_the_heads_distance():
    model = lively_model()
    chain = add_chain(model, 8)
    torch.nn.init.normal_(chain.W_down.weight)
    streams, written = torch.randn(2, 7, 32), torch.randint(0, 64, (2, 7))
    own, expected = (model.lm_head(streams) * 0.7).softmax(-1), 0.0
    for row in range(2):
        for place in range(7 - 3):
            read = state = streams[row, place]
            for k, head in enumerate(model.multi_token_head.heads):
                wanted = own[row, place + 1 + k]
                state, added = model.draft_step(state, read, written[row, place + 1 + k])
                alone, told = head(read).log_softmax(-1), (head(read) + added).log_softmax(-1)
                expected -= ((alone + told) * wanted).sum() / 8
    torch.testing.assert_close(draft_loss(model, streams, written), expected)


@torch.no_grad()
def test_a_new_chain_moves_nothing():
    model = lively_model()
    add_chain(model, 8)
    state = torch.randn(2, 32)
    moved, added = model.draft_step(state, state, torch.tensor([4, 5]))
    assert torch.equal(moved, state)
    assert not added.any()


@pytest.mark.parametrize("off", [{"draft_steps": 0}, {"draft_width": 0}])
def test_no_steps_or_no_width_makes_no_chain(off):
    model = lively_model()
    assert tune_draft_chain(model, IDS, RECIPE.but(**off)) == []
    assert model.multi_token_head.chain is None
