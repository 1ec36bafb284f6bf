"""Attention masks of any implementation as the additive mask that step-by-step attention adds to its scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def additive(
    module: nn.Module, mask: Any, query: Tensor, key: Tensor, is_causal: bool | None, window: int | None = None
) -> Tensor:
    """`[batch or 1, heads or 1, query, key]`, 0 where attending is allowed and the dtype's least number where not.

    sdpa passes None (causal by its own flag) or booleans, flex a block mask, flash the padding mask `[batch, key]` and the
    width of a sliding window; eager's own additive mask is returned as it is.
    """
    if isinstance(mask, Tensor) and mask.ndim == 4:
        return mask if mask.is_floating_point() else _from_allowed(mask, query)
    allowed = _by_itself(module, query, key, is_causal, window)
    if isinstance(mask, Tensor) and mask.ndim == 2:
        padding = mask[:, None, None, -key.shape[2] :].bool()
        allowed = padding if allowed is None else allowed & padding
    elif mask is not None and hasattr(mask, "mask_mod"):
        allowed = _from_block_mask(mask, query, key)
    if allowed is None:  # zeros rather than nothing: some files' step-by-step functions add whatever they are given
        return query.new_zeros(1, 1, query.shape[2], key.shape[2])
    return _from_allowed(allowed, query)


def _from_allowed(allowed: Tensor, query: Tensor) -> Tensor:
    zero = torch.zeros((), dtype=query.dtype, device=query.device)
    return torch.where(allowed.bool(), zero, torch.finfo(query.dtype).min)


def _by_itself(module: Any, query: Tensor, key: Tensor, is_causal: bool | None, window: int | None) -> Tensor | None:
    """What a kernel keeps to without being told by a mask: no later token, and none further off than its window.

    Step-by-step attention keeps to nothing of itself.
    """
    implementation = str(module.config._attn_implementation)
    if implementation == "eager":
        return None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    queries, keys = query.shape[2], key.shape[2]
    # sdpa's own flag counts queries from the first key, of which a static cache has more than are filled; flash from the last
    sdpa = "sdpa" in implementation
    first = 0 if sdpa else keys - queries
    at, columns = (torch.arange(*ends, device=query.device) for ends in ((first, first + queries), (keys,)))
    behind = at[:, None] - columns
    rules = [behind >= 0] if causal and queries > 1 else []
    if window is not None and keys > window and not sdpa:  # sdpa's kernel takes no window: its mask holds it
        rules.append(behind.abs() < window)
    return torch.stack(rules).all(0)[None, None] if rules else None


def _from_block_mask(mask: Any, query: Tensor, key: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import create_mask

    return create_mask(mask.mask_mod, query.shape[0], None, query.shape[2], key.shape[2], device=query.device.type)
