"""What an APEX-1 returns: transformers' fields and the document's (`spec_logits`, `kv_caches`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers.cache_utils import Cache
from transformers.modeling_outputs import ModelOutput


@dataclass
class Apex1CausalLMOutput(ModelOutput):
    """One forward's results.

    loss: scalar, if labels were given.  logits: [batch, seq, vocab].  spec_logits: one [batch, seq, vocab] per
    multi-token head, or None.  cache: what to pass on as `cache=`.  hidden_states: with `return_hidden=True` the stream
    after the final norm, [batch, seq, hidden]; with `output_hidden_states=True` transformers' tuple, of which that is
    the last. attentions, router_logits: one per block that has one, when asked for.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    spec_logits: tuple[torch.Tensor, ...] | None = None
    cache: Cache | None = None
    hidden_states: torch.Tensor | tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None
    router_logits: tuple[torch.Tensor, ...] | None = None
    # set by the model; no fields, so no outputs: the width of a rope key, and the stream [batch, kept, hidden] that the
    # heads have read
    rope_dim, heads_read = 0, cast(Any, None)

    @property
    def past_key_values(self) -> Cache | None:
        """The cache under the name by which generation asked for it before transformers 5.24."""
        return self.cache

    @property
    def kv_caches(self) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """The cache in the document's form, one pair per block.

        A local block's is (rotated keys, values), each [batch, kv heads, at most window - 1, head_dim]; a global
        block's is (latent [batch, tokens, kv_lora_rank], rotated rope keys [batch, kv heads, tokens, rope width]).
        """
        if self.cache is None:
            return None
        layers: list[Any] = list(self.cache.layers)
        return [(c.keys, c.values) if c.is_sliding else self._latent_pair(c) for c in layers]

    def _latent_pair(self, layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        latent, side_by_side = layer.keys[:, 0], layer.values[:, 0]
        return latent, side_by_side.unflatten(-1, (-1, self.rope_dim)).transpose(1, 2)


def kept_positions(stream: torch.Tensor, logits_to_keep: int | torch.Tensor) -> torch.Tensor:
    """The positions [batch, kept, hidden] of the stream whose logits are asked for.

    The last so many, 0 for all of them; or those of these indices, [kept] for every row or [batch, kept].
    """
    if isinstance(logits_to_keep, int):
        return stream[:, -logits_to_keep:]
    if logits_to_keep.ndim == 1:
        return stream[:, logits_to_keep]
    return torch.take_along_dim(stream, logits_to_keep[..., None], dim=1)
