"""Losses: each head at its own distance, ignored labels, prefixes, accumulation."""

from __future__ import annotations

import math

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens

from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.losses import ahead_loss, training_loss, without_prefix
from nnatlas.apex.modeling import Apex1ForCausalLM


def by_hand(logits, labels, offset):
    """-log softmax at every place that has a label `offset` on, in plain Python."""
    terms = []
    for row, row_labels in zip(logits.tolist(), labels.tolist(), strict=True):
        for place, label in enumerate(row_labels[offset:]):
            if label != -100:
                scores = row[place]
                terms.append(math.log(sum(math.exp(s - scores[label]) for s in scores)))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("first", [1, 2])
def test_the_loss_is_the_next_token_and_each_head_at_its_offset(first):
    model, ids = tiny_model(first_head_offset=first, n_predict=3, lambda_spec=0.3), tokens(2, 9)
    labels = ids.clone()
    labels[0, 4:6] = -100
    output = model(ids, labels=labels)
    heads = [by_hand(h, labels, first + k) for k, h in enumerate(output.spec_logits)]
    expected = by_hand(output.logits, labels, 1) + 0.3 * sum(heads) / 3
    assert output.loss.item() == pytest.approx(expected, abs=1e-4)


def test_heads_that_reach_past_the_end_are_left_out():
    model, ids = tiny_model(n_predict=4, lambda_spec=1.0), tokens(1, 3)
    output = model(ids, labels=ids)
    heads = [by_hand(output.spec_logits[k], ids, k + 1) for k in range(2)]  # offsets 1 and 2 of 3 tokens
    assert output.loss.item() == pytest.approx(by_hand(output.logits, ids, 1) + sum(heads) / 2, abs=1e-4)


def test_f30_labels_inside_a_prefix_are_ignored():
    """Its rows see one another, so predicting them is copying; the first label after it is not."""
    labels = tokens(3, 8)
    kept = without_prefix(labels, torch.tensor([0, 3, 8]), None) != -100
    assert kept.sum(-1).tolist() == [8, 5, 0]
    assert kept[1].tolist() == [False] * 3 + [True] * 5
    padded = without_prefix(labels, 2, torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1]] * 3)) != -100
    assert padded[0].tolist() == [False] * 4 + [True] * 4
    model, ids = tiny_model(), tokens(1, 10)
    masked = ids.clone()
    masked[:, :4] = -100
    output = model(ids, labels=ids, prefix_len=4)
    assert output.loss.item() == pytest.approx(model(ids, labels=masked, prefix_len=4).loss.item())
    expected = training_loss(model.config, output.logits, output.spec_logits, masked)
    assert output.loss.item() == pytest.approx(expected.item())


def test_sums_over_micro_batches_equal_one_batch():
    model, ids = tiny_model(n_predict=0), tokens(4, 12)
    labels = ids.clone()
    labels[0, 3:] = -100
    count = int((labels[:, 1:] != -100).sum())
    parts = [model(ids[i : i + 1], labels=labels[i : i + 1], num_items_in_batch=count).loss.item() for i in range(4)]
    assert sum(parts) == pytest.approx(model(ids, labels=labels).loss.item(), abs=1e-5)
    assert model(ids, labels=torch.full_like(ids, -100)).loss.item() == 0
    assert ahead_loss(torch.zeros(1, 2, 5), torch.zeros(1, 2, dtype=torch.long), 2) is None


@torch.no_grad()
@pytest.mark.parametrize("hidden, legacy_excess", [(256, 0.05), (512, 2.0)])
def test_f26_an_untrained_model_knows_nothing(hidden, legacy_excess):
    """Loss near ln V; with a logit scale of 1 a wide model is sure that its own token comes next."""
    sizes = dict(vocab_size=2000, hidden_size=hidden, num_hidden_layers=2, num_attention_heads=4, head_dim=32,
                 intermediate_size=256, n_predict=0, moe_enabled=False, skip_gate_enabled=False)  # fmt: skip
    ids, excess = tokens(1, 64, vocab=2000), {}
    for scale in (None, 1.0):
        torch.manual_seed(0)
        loss = Apex1ForCausalLM(Apex1Config(**sizes, logit_scale=scale))(ids, labels=ids).loss
        excess[scale] = loss.item() - math.log(2000)
    assert abs(excess[None]) < 0.02
    assert excess[1.0] > legacy_excess
