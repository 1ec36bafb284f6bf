"""Head scores: how much each head attends as previous-token, duplicate-token and induction heads do (Olsson et al. 2022).

For a query at position i, previous-token is the weight on i - 1; duplicate-token that on earlier positions with the same
token; induction that on the positions right after those.  A score is its mean over the real queries that have such a key.
On random tokens said twice each query of the second half has exactly one of each, and nothing else gives a head a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from nnatlas.errors import InputError, Unavailable
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.model.asked import at_least
from nnatlas.model.prompts import Prompts

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

SCORES: Final = ("previous token", "duplicate token", "induction")


@dataclass(frozen=True, repr=False)
class HeadScores(Shown):
    """`values`, with the axes `scores layers heads`, each between 0 and 1, NaN where there is no such head.

    Made by `head_scores`; printing it shows a table for each score, `top` names the best heads.
    """

    values: Tensor
    missing: dict[int, str]

    def __getitem__(self, score: str) -> Tensor:
        """One score, `layers heads`."""
        if score not in SCORES:
            raise InputError(f"no score {score!r}; there are {', '.join(SCORES)}")
        return self.values[SCORES.index(score)]

    def top(self, k: int = 5, score: str = "induction") -> list[tuple[int, int, float]]:
        """The `k` heads that score highest: layer, head, score.

        >>> head_scores(model).top(1)
        [(18, 6, 0.85...)]
        """
        at_least(0, k=k)
        found = self[score]
        best = found.flatten().nan_to_num(nan=-1.0).topk(min(k, int((~found.isnan()).sum())))
        places = [divmod(at, found.shape[1]) for at in best.indices.tolist()]
        return [(layer, head, float(found[layer, head])) for layer, head in places]

    def grid(self) -> Grid | Pages:
        """A page for each score."""
        rows, columns = Axis("layer", range(self.values.shape[1])), Axis("head", range(self.values.shape[2]))
        notes = "; ".join(f"no pattern: {why}" for why in dict.fromkeys(self.missing.values()))
        described = dict(units="attention", limits=(0, 1), note=notes)
        return Pages.of(self.values, Axis("score", SCORES), rows, columns, title="head scores", **described)


def head_scores(
    model: StandardizedTransformer,
    prompt: Any = None,
    *,
    length: int = 50,
    rows: int = 4,
    seed: int = 0,
    **keywords: Any,
) -> HeadScores:
    """Score every head of a model, by default on random tokens said twice.

    Args:
        model: any model that `nnatlas.load` made.
        prompt: score on these prompts instead, in every form that `model.trace` takes; padding does not count.
        length, rows, seed: of the random tokens, see `repeated_random_tokens`.

    Raises:
        Unavailable: no block of this model has an attention pattern, with the reason.

    Example:
        >>> scores = head_scores(model)
        >>> scores.top(3, "induction")
        [(18, 6, 0.85...), (17, 3, 0.73...), (17, 4, 0.71...)]
    """
    asked = repeated_random_tokens(model, length, rows, seed) if prompt is None else prompt
    found: dict[int, Tensor] = {}
    missing: dict[int, str] = {}
    with torch.no_grad(), model.trace(asked, **keywords) as run:
        prompts = Prompts.in_run(model)
        keys = _keys(prompts.input_ids, prompts.mask)
        if not bool(keys.any()):
            raise InputError("these prompts have one token each: heads are scored by what they attend to before it")
        for layer, block in enumerate(model.layers):
            try:
                found[layer] = _scored(block.self_attn.attention_probabilities.float(), keys)
            except Unavailable as why:
                missing[layer] = why.reason
        run.stop()
    if not found:
        reason = next(iter(missing.values()))
        raise Unavailable(f"no block of this model has an attention pattern: {reason}", reason)
    values = torch.full((len(SCORES), model.num_layers, max(one.shape[1] for one in found.values())), torch.nan)
    for layer, scored in found.items():
        values[:, layer, : scored.shape[1]] = scored
    return HeadScores(values, missing)


def repeated_random_tokens(model: StandardizedTransformer, length: int = 50, rows: int = 4, seed: int = 0) -> Tensor:
    """Rows of `length` different random tokens said twice, `[rows, 1 + 2 * length]` or, without a begin token, one less.

    No special tokens are drawn, and the tokenizer's begin token, where it has one, stands first as in any text.
    """
    at_least(1, length=length, rows=rows)
    tokenizer = model.tokenizer
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)
    size = model.vocab_size if tokenizer is None else min(model.vocab_size, len(tokenizer))
    plain = torch.tensor([token for token in range(size) if token not in special])
    if length > len(plain):
        raise InputError(f"{length} different tokens of a vocabulary of {len(plain)}")
    draw = torch.Generator().manual_seed(seed)
    once = torch.stack([plain[torch.randperm(len(plain), generator=draw)[:length]] for _ in range(rows)])
    begin = getattr(tokenizer, "bos_token_id", None)
    start = [] if begin is None else [torch.full((rows, 1), begin)]
    return torch.cat([*start, once, once], 1)


def _keys(input_ids: Tensor | None, real: Tensor) -> Tensor:
    """For each score, row and query which keys count, `scores batch query key`, of real tokens only."""
    if input_ids is None:
        raise InputError("head scores compare tokens: hand in text or ids, not embeddings")
    seq = input_ids.shape[1]
    order = torch.arange(seq, device=input_ids.device)
    earlier = (order[None, :] < order[:, None]) & real[:, None, :] & real[:, :, None]
    previous = earlier & (order[None, :] == order[:, None] - 1)
    same = earlier & (input_ids[:, :, None] == input_ids[:, None, :])
    after = torch.zeros_like(same)
    after[..., 1:] = same[..., :-1]
    return torch.stack([previous, same, after])


def _scored(pattern: Tensor, keys: Tensor) -> Tensor:
    """Every head's scores, `scores heads`: the mean weight on the keys that count, over the queries that have one."""
    seq = keys.shape[-1]
    if pattern.shape[-2] != seq or pattern.shape[-1] < seq:
        queries, over = pattern.shape[-2:]
        raise Unavailable(f"its pattern is of {queries} queries over {over} keys, the prompt has {seq} positions")
    keys = keys.to(pattern)
    weights = torch.einsum("bhqk,sbqk->shbq", pattern[..., :seq], keys)
    counted = keys.amax(-1)[:, None]  # scores 1 batch query
    return ((weights * counted).sum((-2, -1)) / counted.sum((-2, -1))).cpu()
