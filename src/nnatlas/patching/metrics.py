"""Metrics: what a patch is judged by, one number for each row of logits at the last position.

A metric is bound to a pair of prompts before it is used, since what it compares with (the answers, the clean prompt's own
distribution) belongs to the pair.  Any function from logits `[rows, vocab_size]` to `[rows]` serves as well; attribution
patching also needs its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.model.tokens import token_ids, token_text

Measure = Callable[[Tensor], Tensor]
"""Logits `[rows, vocab_size]` at the last position -> `[rows]`."""
Target = str | int | None
Targets = Target | Sequence[Target]
"""A token as its text or id, or one for each pair; None: what the model itself predicts."""


class Ends(NamedTuple):
    """The two runs between which patches of one pair lie; logits `[vocab_size]` at their last positions."""

    tokenizer: Any
    clean: Tensor
    corrupted: Tensor
    pair: int
    pairs: int

    def text(self, token: int) -> str:
        """A token as it is named in words."""
        return repr(token_text(self.tokenizer, token))


class Bound(NamedTuple):
    """A metric for one pair, and what it measures in words."""

    words: str
    measure: Measure


class Metric(Protocol):
    """What `metric=` takes besides names and plain functions."""

    def bind(self, ends: Ends) -> Bound:
        """The measure for one pair."""
        ...


@dataclass(frozen=True)
class LogitDifference:
    """Logit of the answer less logit of a wrong answer: linear in the logits, and blind to what moves both alike.

    By default the answer is what the model predicts after the clean prompt, the wrong one what it predicts after the
    corrupted.  A sequence gives each pair its own.

    Raises:
        InputError: a text is several tokens (they are named), or both prompts predict the same token.

    >>> metric = LogitDifference(" Paris", " Athens")
    >>> patching.attribution_patching(model, clean, corrupted, metric=metric).largest(1)
    """

    answer: Targets = None
    wrong: Targets = None

    def bind(self, ends: Ends) -> Bound:
        answer = _token(ends, self.answer, ends.clean)
        wrong = _token(ends, self.wrong, ends.corrupted)
        if answer == wrong:
            raise InputError(
                f"answer and wrong answer are both {ends.text(answer)}"
                + ("" if None not in (self.answer, self.wrong) else ", which is what the model predicts")
                + "; name two tokens: LogitDifference(answer, wrong)"
            )
        words = f"logit of {ends.text(answer)} less logit of {ends.text(wrong)}"
        return Bound(words, lambda logits: logits[:, answer] - logits[:, wrong])


@dataclass(frozen=True)
class Probability:
    """Probability of the answer; by default of what the model predicts after the clean prompt."""

    answer: Targets = None

    def bind(self, ends: Ends) -> Bound:
        answer = _token(ends, self.answer, ends.clean)
        return Bound(f"probability of {ends.text(answer)}", lambda logits: logits.softmax(-1)[:, answer])


@dataclass(frozen=True)
class KLToClean:
    """KL(clean ‖ patched) of the next-token distributions, in nats: how much of the clean prediction is missing."""

    def bind(self, ends: Ends) -> Bound:
        true = ends.clean.log_softmax(-1)
        measure = lambda logits: (true.exp() * (true - logits.log_softmax(-1))).sum(-1)
        return Bound("KL(clean ‖ patched) in nats", measure)


METRICS: dict[str, Callable[..., Metric]] = {
    "logit_difference": LogitDifference,
    "probability": Probability,
    "kl": KLToClean,
}
"""Metrics by name."""


def bound(metric: str | Metric | Measure, ends: Ends) -> Bound:
    """A metric in any form that `metric=` takes, for one pair."""
    if isinstance(metric, str):
        if metric not in METRICS:
            raise InputError(f"no metric {metric!r}; there are {', '.join(METRICS)}, or a function of logits")
        metric = METRICS[metric]()
    if isinstance(metric, type):
        metric = metric()  # LogitDifference for LogitDifference()
    if hasattr(metric, "bind"):
        return metric.bind(ends)
    if not callable(metric):
        raise InputError(
            f"metric={metric!r}: give {', '.join(map(repr, METRICS))}, or a function of logits [rows, vocab_size]"
        )
    return Bound(getattr(metric, "__name__", type(metric).__name__), metric)


class Judge:
    """The measures of several pairs as one: each row of logits is judged by its own pair's."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.measures = measures

    def __call__(self, logits: Tensor, pairs: Sequence[int]) -> Tensor:
        """Numbers `[rows]` for logits `[rows, vocab_size]`, `pairs` naming the pair of each row; keeps gradients."""
        numbers = logits.new_zeros(len(pairs))
        for pair in dict.fromkeys(pairs):
            rows = torch.tensor([at for at, own in enumerate(pairs) if own == pair], device=logits.device)
            numbers = numbers.index_put((rows,), self.measures[pair](logits[rows]).to(numbers))
        return numbers


def _token(ends: Ends, targets: Targets, logits: Tensor) -> int:
    """The id of this pair's target; None is the best of these logits."""
    if targets is not None and not isinstance(targets, str | int) and isinstance(targets, Sequence):
        if len(targets) != ends.pairs:
            raise InputError(f"{len(targets)} answers for {ends.pairs} pairs of prompts: give one, or one for each")
        targets = targets[ends.pair]
    return int(logits.argmax()) if targets is None else token_ids(ends.tokenizer, targets, logits.shape[-1])[0]
