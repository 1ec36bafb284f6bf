"""Tuning the multi-token heads on the model's own words: it pays, and touches nothing else."""

from __future__ import annotations

import pytest
import torch
from tests.apex.training.test_run import MODEL

from nnatlas.apex import Apex1Config, Apex1ForCausalLM
from nnatlas.apex.training.heads import continuations, heads_loss, pieces_of, tune_heads
from nnatlas.apex.training.measure import tokens_per_pass
from nnatlas.apex.training.recipe import Recipe

RECIPE = Recipe(
    model=MODEL, vocab_size=64, head_prompts=40, head_prompt_tokens=8, head_tokens=24, head_steps=150, head_rate=1e-2
)
IDS = torch.arange(3, 2003) % 61 + 3


def made() -> Apex1ForCausalLM:
    torch.manual_seed(0)
    return Apex1ForCausalLM(Apex1Config(vocab_size=64, **MODEL)).eval()


@pytest.fixture(scope="module")
def tuned() -> tuple[Apex1ForCausalLM, list[float]]:
    model = made()
    return model, tune_heads(model, IDS, RECIPE)


def test_drafts_come_true_more_often_afterwards(tuned):
    model, losses = tuned
    prompts = pieces_of(IDS, 5, 8, torch.Generator().manual_seed(1)).tolist()
    assert losses[-1] < losses[0] / 2
    assert len(losses) == 150
    assert tokens_per_pass(model, prompts, False, 24) > tokens_per_pass(made(), prompts, False, 24) + 0.5


def test_nothing_but_the_heads_changes(tuned):
    before, after = made().state_dict(), tuned[0].state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"multi_token_head.heads.0.weight", "multi_token_head.heads.1.weight"}


def test_the_seed_decides_everything(tuned):
    again = made()
    torch.rand(7)
    assert tune_heads(again, IDS, RECIPE) == tuned[1]


def test_the_loss_is_each_heads_own_at_its_distance():
    model = made()
    streams, targets = torch.randn(2, 6, 32), torch.randint(0, 64, (2, 6))
    expected = 0.0
    for head, ahead in zip(model.multi_token_head(streams), (2, 3), strict=True):
        chances = head.softmax(-1)
        picked = [chances[b, t, targets[b, t + ahead]].log() for b in range(2) for t in range(6 - ahead)]
        expected -= sum(picked) / len(picked)
    torch.testing.assert_close(heads_loss(model, streams, targets), expected)


def test_continuations_are_greedy_and_go_on_past_an_end_mark():
    model, prompts = made(), IDS[:8][None]
    written = continuations(model, prompts, 10)
    assert written.shape == (1, 18)
    with torch.no_grad():
        logits = model(written, use_cache=False).logits
    assert torch.equal(written[0, 8:], logits[0, 7:-1].argmax(-1))


def test_no_steps_or_no_heads_is_nothing_to_do():
    model = made()
    assert tune_heads(model, IDS, RECIPE.but(head_steps=0)) == []
    model.multi_token_head = None
    assert tune_heads(model, IDS, RECIPE) == []
