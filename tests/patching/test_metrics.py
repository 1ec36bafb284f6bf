"""Metrics, by hand; answers that are no single token are named."""

from __future__ import annotations

import math

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED
from tests.tiny_models import tiny

from nnatlas.errors import InputError
from nnatlas.patching import METRICS, KLToClean, LogitDifference, Probability, activation_patching
from nnatlas.patching.metrics import Ends, bound
from nnatlas.tiny import byte_tokenizer

LOGITS = torch.tensor([[0.0, math.log(2), math.log(5)], [0.0, 0.0, 0.0]])
ENDS = Ends(None, torch.tensor([0.0, 0.0, math.log(2)]), torch.tensor([1.0, 0.0, 0.0]), 0, 1)


def measured(metric: object, ends: Ends = ENDS) -> list[float]:
    return bound(metric, ends).measure(LOGITS).tolist()


def test_numbers():
    assert measured(LogitDifference(1, 0)) == pytest.approx([math.log(2), 0])
    assert measured(Probability(2)) == pytest.approx([5 / 8, 1 / 3])
    # KL((1/4, 1/4, 1/2) || (1/8, 2/8, 5/8)) and from the uniform distribution
    kl = [0.25 * math.log(2) + 0.5 * math.log(0.8), 0.5 * math.log(0.75) + 0.5 * math.log(1.5)]
    assert measured(KLToClean()) == pytest.approx(kl)


def test_without_answers_they_are_what_the_model_predicts():
    assert measured(LogitDifference()) == measured(LogitDifference(2, 0))
    assert measured(Probability()) == measured(Probability(2))
    assert measured("logit_difference") == measured(LogitDifference(2, 0))
    assert bound("kl", ENDS).words == "KL(clean ‖ patched) in nats"
    assert set(METRICS) == {"logit_difference", "probability", "kl"}
    same = ENDS._replace(corrupted=ENDS.clean)
    with pytest.raises(InputError, match="both '<id:2>', which is what the model predicts; name two tokens"):
        bound(LogitDifference(), same)
    with pytest.raises(InputError, match="both '<id:1>'; name two tokens"):
        bound(LogitDifference(1, 1), ENDS)


def test_answers_are_single_tokens_and_named():
    ends = ENDS._replace(tokenizer=byte_tokenizer(), clean=torch.zeros(320), corrupted=torch.zeros(320))
    assert bound(LogitDifference("A", "B"), ends).words == "logit of 'A' less logit of 'B'"
    assert bound(Probability("A"), ends).words == "probability of 'A'"
    with pytest.raises(InputError, match=r"'Paris' is 5 tokens, not one: \['P', 'a', 'r', 'i', 's'\]"):
        bound(LogitDifference("Paris", "B"), ends)


def test_each_pair_may_have_its_own():
    second = ENDS._replace(pair=1, pairs=2)
    assert measured(LogitDifference([0, 2], 1), second) == measured(LogitDifference(2, 1))
    with pytest.raises(InputError, match="3 answers for 2 pairs"):
        bound(LogitDifference([0, 1, 2], 1), second)


def test_names_and_functions():
    with pytest.raises(InputError, match="no metric 'logits'; there are logit_difference, probability, kl"):
        bound("logits", ENDS)
    assert bound(lambda logits: logits[:, 0], ENDS).words == "<lambda>"


def test_kl_is_nothing_for_the_clean_run_and_normalised_the_right_way_round():
    found = activation_patching(tiny("llama"), CLEAN, CORRUPTED, metric="kl")
    assert abs(float(found.clean)) < 1e-6 < float(found.corrupted)
    assert float(found.normalised[0, -1, -1]) == pytest.approx(1, abs=1e-4)  # the whole clean stream at the readout


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda logits: logits, r"\[2, 320\]"),
        (lambda logits: logits.mean(), r"\[\]"),
        (lambda logits: 1.0, "a float"),
        (lambda logits: None, "a NoneType"),
    ],
)
def test_a_metric_that_is_not_a_number_a_row_is_refused(wrong, said):
    with pytest.raises(InputError, match=rf"gives {said} for 2 rows: it makes of logits \[rows, vocab_size\] numbers"):
        activation_patching(tiny("llama"), CLEAN, CORRUPTED, metric=wrong)
