"""Chain, inside the attention call: scores from queries and keys, the pattern from the scores, mixed values from both.

No constant is assumed: the scale of the scores and any bias of position are measured from the model's own numbers, so that a
family with a scale of its own passes and a row that reads the wrong tensor does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nnatlas.bind.sizes import setting
from nnatlas.check.at import At
from nnatlas.check.findings import Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial

MASKED = -9e3
"""Masks add at least minus ten thousand; scores of any use are far above."""
_CAPS = ("attn_logit_softcapping", "attn_logit_softcap", "softcap", "attn_logit_cap")


@law("chain")
def the_pattern_is_the_softmax_of_the_scores(trial: Trial) -> Iterator[Finding]:
    """`probabilities = softmax(scores)` over the keys, in float32.

    A sink is one more column of the scores: it takes part in the softmax and is then left out, so rows sum to less than 1.
    """
    for at in _attentions(trial):
        scores, pattern = at("attention_scores"), at("attention_probabilities")
        if scores is not None and pattern is not None:
            softmax = torch.softmax(scores.float(), -1)[..., : pattern.shape[-1]]
            yield from at.equation("attention_probabilities", "softmax(attention_scores)", softmax)


@law("chain")
def nobody_attends_to_the_future(trial: Trial) -> Iterator[Finding]:
    """Query i mixes keys 0 to i: everything above the diagonal is exactly 0."""
    for at in _attentions(trial):
        pattern = at("attention_probabilities")
        if pattern is not None:
            later = torch.triu(pattern.float(), diagonal=1)
            yield from at.equation("attention_probabilities", "0 above the diagonal", later * 0, later)


@law("chain")
def scores_are_queries_times_keys(trial: Trial) -> Iterator[Finding]:
    """Up to one scale per head and a bias that does not depend on the tokens, both of which are measured here."""
    for at in _attentions(trial):
        query, key, scores = at("attention_queries"), at("attention_keys"), at("attention_scores")
        if query is not None and key is not None and scores is not None:
            scale, deviation = _fit(query.double(), key.double(), _uncapped(at, scores.double()))
            where, words = at.block.name, f"attention_scores == {scale:.4g} · queries · keys + mask"
            yield trial.holds("chain", "self_attn.attention_scores", where, words, deviation, 10 * trial.tolerance)


@law("chain")
def heads_mix_values_by_the_pattern(trial: Trial) -> Iterator[Finding]:
    """`head_outputs[q] = sum over k of probabilities[q, k] * values[k]`, each key/value head shared by its group."""
    for at in _attentions(trial):
        pattern, values = at("attention_probabilities"), at("attention_values")
        if pattern is not None and values is not None:
            mixed = (pattern.float() @ _repeated(values, pattern).float()).transpose(1, 2)
            yield from at.equation("attention_head_outputs", "probabilities · values", mixed)


@law("chain")
def the_rotary_leaves_the_first_position_alone(trial: Trial) -> Iterator[Finding]:
    """Its angle there is 0; a long-context rule may still stretch every dimension by a constant, which is measured.

    A rotary of neighbouring pairs may bring them into two halves on the way: then only the order is another.
    """
    for at in _attentions(trial):
        for plain, rotated in (("unrotated_queries", "attention_queries"), ("unrotated_keys", "attention_keys")):
            before, after = at(plain), at(rotated)
            if before is not None and after is not None:
                one, other = _repeated(before, after)[:, :, 0].double(), after[:, :, 0].double()
                if apart(one, other) > trial.tolerance >= apart(one.sort(-1).values, other.sort(-1).values):
                    one, other = one.sort(-1).values, other.sort(-1).values
                stretch = (one * other).sum((0, 1)) / (one * one).sum((0, 1)).clamp(min=1e-12)
                words = f"{rotated} at position 0" + ("" if apart(one, other) < 1e-2 else " less a stretch")
                yield from at.equation(plain, words, other, one * stretch)


def _attentions(trial: Trial) -> Iterator[At]:
    """The chosen blocks that have an attention."""
    yield from (At(trial, block) for block in trial.blocks if "self_attn" in block.parts)


def _repeated(heads: Tensor, like: Tensor) -> Tensor:
    """Key/value heads, once for each query head that shares them."""
    return heads.repeat_interleave(like.shape[1] // heads.shape[1], 1)


def _uncapped(at: At, scores: Tensor) -> Tensor:
    """Scores before a tanh cap, where module or config state one."""
    host = at.block.parts["self_attn"]
    cap = setting(host.module, *_CAPS) or setting(at.trial.owner.config, *_CAPS)
    if not isinstance(cap, int | float) or isinstance(cap, bool):
        return scores
    visible = scores > MASKED
    return torch.where(visible, torch.atanh((scores / cap).clamp(-1, 1)) * cap, scores)


def _fit(query: Tensor, key: Tensor, scores: Tensor) -> tuple[float, float]:
    """One scale per head that best turns products into scores, and how far they then still are apart.

    Two prompts are compared, so that a bias of position alone (ALiBi, relative positions) drops out, and each row's mean is
    taken off, so that a constant per row (a subtracted maximum) does.
    """
    products = query @ _repeated(key, query).transpose(-2, -1)
    scores = scores[..., : products.shape[-1]]
    seen = (scores > MASKED).all(0)
    wanted = _centred(scores[0] - scores[1], seen)
    given = _centred(products[0] - products[1], seen)
    scale = (wanted * given).sum((1, 2), keepdim=True) / (given * given).sum((1, 2), keepdim=True).clamp(min=1e-30)
    rest = wanted - scale * given
    return float(scale.mean()), float(rest.abs().max() / wanted.square().mean().sqrt().clamp(min=1e-30))


def _centred(rows: Tensor, seen: Tensor) -> Tensor:
    """Rows less their mean over what is seen; 0 where nothing is."""
    rows = torch.where(seen, rows, 0.0)
    mean = rows.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(seen, rows - mean, 0.0)
