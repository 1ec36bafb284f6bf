"""Rotary parameters of a small head: their lists must fit its width, and their long-context rules must set in early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TRAINED_LENGTH = 64  # positions before a long-context rule sets in


def fit_rotary(parameters: dict[str, Any] | None, head_dim: int) -> None:
    """Change `parameters` (one set, or a dict of sets by kind of block) in place to fit heads of width `head_dim`."""
    for one in _sets(parameters or {}):
        if one.get("partial_rotary_factor") == 1.0:
            one["partial_rotary_factor"] = 0.5
        pairs = int(head_dim * (one.get("partial_rotary_factor") or 1.0)) // 2
        if one.get("mrope_section"):
            one["mrope_section"] = share_out(pairs, one["mrope_section"])
        if one.get("original_max_position_embeddings"):
            one["original_max_position_embeddings"] = TRAINED_LENGTH
        for name in ("short_factor", "long_factor"):
            if one.get(name):
                one[name] = one[name][:pairs]


def share_out(total: int, weights: list[int]) -> list[int]:
    """`total` in whole parts as near to the proportions of `weights` as can be (largest remainders first).

    >>> share_out(8, [16, 24, 24])
    [2, 3, 3]
    """
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: parts[i] - exact[i])
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def _sets(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield parameters
    yield from (value for value in parameters.values() if isinstance(value, dict))
