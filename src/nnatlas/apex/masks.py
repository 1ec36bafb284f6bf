"""What each block may see: causal globally, a window locally, a bidirectional prefix per row, never padding.

The masks are transformers' own; this file only says where a prefix lies.  A prefix row sees the whole prefix and
nothing else, on local blocks too; a later row sees of the prefix what its window reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import Cache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

from nnatlas.apex.cache_name import CACHE
from nnatlas.errors import InputError

Prefix = int | torch.Tensor


def prefix_ends(prefix_len: Prefix, attention_mask: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """[batch] index at which each row's prefix ends: its length counted from the row's first real token.

    `prefix_len` is one length for all rows or [batch] lengths; `like` [batch, seq, hidden] gives batch and device.
    Raises `InputError` for anything else.
    """
    batch = like.shape[0]
    lengths = torch.as_tensor(prefix_len, device=like.device)
    if lengths.is_floating_point() or lengths.shape not in ((), (1,), (batch,)) or (lengths < 0).any():
        raise InputError(
            f"prefix_len is a number of tokens, one for all or one for each of {batch} rows; not {prefix_len}"
        )
    lengths = lengths.expand(batch).contiguous()
    if attention_mask is None or attention_mask.ndim != 2:
        return lengths
    left_pads = attention_mask.to(like.device).bool().int().argmax(dim=-1)
    return lengths + left_pads * (lengths > 0)


def attention_masks(
    config: Any,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None,
    cache: Cache | None,
    position_ids: torch.Tensor | None,
    prefix_len: Prefix,
) -> dict[str, Any]:
    """The mask of each kind of block that the model has, by its name in `config.layer_types`.

    Raises `InputError` if a prefix is given in pieces: its first rows must see its last tokens.
    """
    shared = dict(
        config=config,
        inputs_embeds=inputs_embeds,
        attention_mask=attention_mask,
        position_ids=position_ids,
        **{CACHE: cache},
        or_mask_function=_prefix_overlay(inputs_embeds, attention_mask, cache, prefix_len),
    )
    makers = {"full_attention": create_causal_mask, "sliding_attention": create_sliding_window_causal_mask}
    return {kind: makers[kind](**shared) for kind in sorted(set(config.layer_types))}


def _prefix_overlay(
    embeds: torch.Tensor, attention_mask: torch.Tensor | None, cache: Cache | None, prefix_len: Prefix
) -> Callable[..., torch.Tensor] | None:
    """What transformers ORs with the causal rule, (batch, head, query, key) -> bool; None if no row is in a prefix."""
    if isinstance(prefix_len, int) and prefix_len == 0:
        return None
    ends = prefix_ends(prefix_len, attention_mask, embeds)
    past, longest = (cache.get_seq_length() if cache is not None else 0), int(ends.max())
    if past >= longest:  # all of it is in the cache already, and no row of this call belongs to it
        return None
    if past > 0 or (cache is not None and past + embeds.shape[1] < longest):
        raise InputError(
            f"a bidirectional prefix must come in one piece: it ends at token {longest}; this call with a cache has"
            f" tokens {past} to {past + embeds.shape[1] - 1}; make the first chunk at least {longest} tokens long"
        )
    return lambda batch, head, query, key: (query < ends[batch]) & (key < ends[batch])
