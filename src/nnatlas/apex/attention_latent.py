"""Global attention over a compressed latent (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434).

What is unusual
- the cache holds a latent of `kv_lora_rank` numbers and a rotated rope key per kv head side by side, not keys and
  values;
- a query or key is `head_dim` unrotated columns followed by `qk_rope_head_dim` rotated ones, a value `head_dim`
  columns; the rope query is read from the stream, not from the query's latent, and there is no norm on either latent;
- with a past, keys and values are not expanded again for every cached token: W_UK is folded into the query and W_UV
  into the output ("absorbed" form).  Absorbed attention is an attention implementation of its own, so it stands in only
  for the stock eager and sdpa functions; anything else under the interface (flex, a user's function, an observer of the
  attention) is called with expanded queries, keys and values as ever, and gets the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import AttentionInterface

from nnatlas.apex.attention import eager_attention_forward, fold_heads
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.rotary import apply_rotary, attention_factor


def padded_sdpa(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """transformers' sdpa on values padded to the keys' width: torch's fused kernels take no other, and the kernel that
    does is five times slower."""
    wide = nn.functional.pad(value, (0, key.shape[-1] - value.shape[-1]))
    output, _ = sdpa_attention_forward(module, query, key, wide, *args, **kwargs)
    return output[..., : value.shape[-1]], None


# transformers' way for a model to have an implementation of its own under a stock name
ALL_ATTENTION_FUNCTIONS = AttentionInterface()
ALL_ATTENTION_FUNCTIONS["sdpa"] = padded_sdpa
STOCK = (eager_attention_forward, padded_sdpa)


class Apex1LatentAttention(nn.Module):
    """Attention over all tokens through a latent of `kv_lora_rank` numbers each."""

    is_causal = True

    def __init__(self, config: Apex1Config, layer_idx: int) -> None:
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.num_heads, self.num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim, self.rope_dim = config.head_dim, config.qk_rope_head_dim
        self.qk_head_dim = self.head_dim + self.rope_dim
        self.num_key_value_groups = self.num_heads // self.num_kv_heads
        self.scaling = attention_factor(config) ** 2 * self.qk_head_dim**-0.5
        hidden, latent, query_latent = config.hidden_size, config.kv_lora_rank, config.q_lora_rank
        self.W_DKV = nn.Linear(hidden, latent, bias=False)
        self.W_UK = nn.Linear(latent, self.num_kv_heads * self.head_dim, bias=False)
        self.W_UV = nn.Linear(latent, self.num_kv_heads * self.head_dim, bias=False)
        self.W_DQ = nn.Linear(hidden, query_latent, bias=False)
        self.W_UQ = nn.Linear(query_latent, self.num_heads * self.head_dim, bias=False)
        self.W_KR = nn.Linear(hidden, self.num_kv_heads * self.rope_dim, bias=False)
        self.W_QR = nn.Linear(hidden, self.num_heads * self.rope_dim, bias=False)
        self.W_O = nn.Linear(self.num_heads * self.head_dim, hidden, bias=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        rotary: torch.Tensor,
        attention_mask: torch.Tensor | None,
        cache: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """[batch, seq, hidden] -> what the block adds to its stream; and the pattern, if the implementation has one."""
        batch, seq, _ = hidden_states.shape
        query = _split_heads(self.W_UQ(self.W_DQ(hidden_states)), self.head_dim)
        rope_query = apply_rotary(_split_heads(self.W_QR(hidden_states), self.rope_dim), rotary)
        latent = self.W_DKV(hidden_states).unsqueeze(1)  # [batch, 1, seq, kv_lora_rank]: one head, as caches expect
        rope_key = apply_rotary(_split_heads(self.W_KR(hidden_states), self.rope_dim), rotary)
        if cache is not None:
            # both as one head, which is what every kind of cache can hold
            side_by_side = rope_key.transpose(1, 2).flatten(2).unsqueeze(1)
            latent, side_by_side = cache.update(latent, side_by_side, self.layer_idx)
            rope_key = _split_heads(side_by_side[:, 0], self.rope_dim)

        pattern: torch.Tensor | None
        states = (query, rope_query, latent, rope_key, attention_mask)
        if self._may_absorb(seq, attention_mask) and self.absorbing_is_cheaper(seq, latent.shape[2]):
            output, pattern = self.attend_absorbed(*states)
        else:
            output, pattern = self.attend_expanded(*states, **kwargs)
        return self.W_O(output.reshape(batch, seq, -1)), pattern

    @property
    def attention_function(self) -> Callable[..., tuple[torch.Tensor, torch.Tensor | None]]:
        """What `attn_implementation` names, as transformers' interface has it now."""
        return ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)

    def attend_expanded(
        self,
        query: torch.Tensor,
        rope_query: torch.Tensor,
        latent: torch.Tensor,
        rope_key: torch.Tensor,
        attention_mask: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attention on keys and values made from every latent; arguments as in `attend_absorbed`."""
        return self.attention_function(
            self,
            torch.cat((query, rope_query), dim=-1),
            torch.cat((_split_heads(self.W_UK(latent[:, 0]), self.head_dim), rope_key), dim=-1),
            _split_heads(self.W_UV(latent[:, 0]), self.head_dim),
            attention_mask,
            dropout=self.config.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )

    def _may_absorb(self, seq: int, attention_mask: Any) -> bool:
        # several queries without a mask mean sdpa's own causal rule, which only sdpa knows to apply
        says_all = seq == 1 if attention_mask is None else isinstance(attention_mask, torch.Tensor)
        return says_all and self.attention_function in STOCK

    def absorbing_is_cheaper(self, seq: int, keys: int) -> bool:
        """Whether `seq` queries over a past save more by not expanding keys and values than wider dot products cost.

        Per cached token, expanding costs latent * head_dim * kv_heads twice over; absorbing costs latent - head_dim
        more for each query and head, twice over.
        """
        latent = self.config.kv_lora_rank
        wider = seq * self.num_heads * (latent - self.head_dim)
        return seq < keys and not self.training and wider < latent * self.head_dim * self.num_kv_heads

    def attend_absorbed(
        self,
        query: torch.Tensor,
        rope_query: torch.Tensor,
        latent: torch.Tensor,
        rope_key: torch.Tensor,
        attention_mask: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention on the latents as they lie in the cache: (q W_UK) . c instead of q . (W_UK c), and likewise W_UV.

        query [batch, heads, seq, head_dim], rope_query [.., rope_dim], latent [batch, 1, keys, kv_lora_rank],
        rope_key [batch, kv heads, keys, rope_dim]; a boolean mask says what is visible, a float one is added.
        """
        batch, heads, seq, _ = query.shape
        per_head = (self.num_kv_heads, self.head_dim, -1)
        latent_query = fold_heads(query, self.num_kv_heads) @ self.W_UK.weight.view(per_head)
        scores = (fold_heads(latent_query, 1) @ latent.transpose(2, 3)).view(batch, heads, seq, -1)
        scores = scores + (fold_heads(rope_query, self.num_kv_heads) @ rope_key.transpose(2, 3)).view_as(scores)
        scores = _mask(scores * self.scaling, attention_mask)
        pattern = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
        mixed = fold_heads((fold_heads(pattern, 1) @ latent).view(batch, heads, seq, -1), self.num_kv_heads)
        output = (mixed @ self.W_UV.weight.view(per_head).transpose(1, 2)).view(batch, heads, seq, -1)
        return output.transpose(1, 2), pattern


def _split_heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """[batch, seq, heads * width] -> [batch, heads, seq, width]"""
    return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def _mask(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if mask is None:  # one query over its past: all of it is visible
        return scores
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min) if mask.dtype == torch.bool else scores + mask
