"""Local attention: grouped queries over a sliding window, every query and key rotated over its full width."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nnatlas.apex.attention import eager_attention_forward
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.rotary import apply_rotary, attention_factor


class Apex1LocalAttention(nn.Module):
    """Attention over the last `sliding_window` tokens; the cache keeps that many rotated keys and their values."""

    is_causal = True

    def __init__(self, config: Apex1Config, layer_idx: int) -> None:
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = attention_factor(config) ** 2 * config.head_dim**-0.5
        q_width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.W_Q = nn.Linear(config.hidden_size, q_width, bias=False)
        self.W_K = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.W_V = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.W_O = nn.Linear(q_width, config.hidden_size, bias=False)

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
        heads = (batch, seq, -1, self.head_dim)
        query = apply_rotary(self.W_Q(hidden_states).view(heads).transpose(1, 2), rotary)
        key = apply_rotary(self.W_K(hidden_states).view(heads).transpose(1, 2), rotary)
        value = self.W_V(hidden_states).view(heads).transpose(1, 2)
        if cache is not None:
            # returns every key of this call, and only then trims what it stores to the window
            key, value = cache.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        output, pattern = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.config.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            sliding_window=self.config.sliding_window,
            **kwargs,
        )
        return self.W_O(output.reshape(batch, seq, -1)), pattern
