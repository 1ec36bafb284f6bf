"""Values of reference prompts, a row for each token that is not padding: what means and resampled values are taken from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.model.positions import real_positions

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

BATCH = 16


def at_real_tokens(
    model: StandardizedTransformer, prompts: Any, values: Iterable[str], batch_size: int = BATCH
) -> dict[str, Tensor]:
    """Each value at every real token of the prompts, `[tokens, ...]`, by name."""
    batches = list(_batches(model, prompts, values, batch_size))
    return {name: torch.cat([found[name][mask] for found, mask in batches]) for name in batches[0][0]}


def at_last_tokens(
    model: StandardizedTransformer, prompts: Any, values: Iterable[str], batch_size: int = BATCH
) -> dict[str, Tensor]:
    """Each value at every prompt's last real token, `[prompts, ...]`, by name."""
    batches = list(_batches(model, prompts, values, batch_size))
    last = lambda tensor, mask: tensor[torch.arange(len(tensor)), real_positions(mask, -1)]
    return {name: torch.cat([last(found[name], mask) for found, mask in batches]) for name in batches[0][0]}


def _batches(
    model: StandardizedTransformer, prompts: Any, values: Iterable[str], batch_size: int
) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Values and mask, a batch at a time; what is not a list of texts is one batch."""
    wanted = list(values)
    if any(law.partition(" ")[0] == "batch" for law in model.family.breaks):
        batch_size = 1  # padding would change what such a family computes
    for chunk in _chunks(prompts, batch_size):
        with torch.no_grad():
            found = dict(model.collect(chunk, ["attention_mask", *wanted]))
        mask = found.pop("attention_mask")
        first = next(iter(found.values()))
        if mask is None:
            mask = torch.ones(first.shape[:2])
        yield found, mask.to(first.device).bool()


def _chunks(prompts: Any, batch_size: int) -> list[Any]:
    if isinstance(prompts, list | tuple) and not prompts:
        raise InputError("no prompts: hand in a list of texts")
    texts = isinstance(prompts, list | tuple) and all(isinstance(one, str) for one in prompts)
    return [prompts[at : at + batch_size] for at in range(0, len(prompts), batch_size)] if texts else [prompts]
