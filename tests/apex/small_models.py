"""Small models with lively weights, shared by the APEX-1 tests."""

from __future__ import annotations

from typing import Any

import torch

from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.modeling import Apex1ForCausalLM


def lively(model: Apex1ForCausalLM, seed: int = 0) -> Apex1ForCausalLM:
    """Weights drawn large enough that logits spread, gates fire and every bias matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("norm.weight") or "norm1" in name or "norm2" in name:
                tensor.copy_(1 + 0.3 * torch.randn(tensor.shape, generator=generator))
            elif name.endswith("expert_bias"):
                tensor.copy_(0.5 * torch.randn(tensor.shape, generator=generator))
            elif "inv_freq" not in name:
                fan_in = tensor.shape[-1] if tensor.ndim > 1 else 4
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * (1.5 / fan_in**0.5))
    return model.eval()


TINY: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "qk_rope_head_dim": 4, "kv_lora_rank": 12, "q_lora_rank": 20, "intermediate_size": 24,
    "max_position_embeddings": 64, "sliding_window": 8, "num_local_experts": 4, "skip_gate_hidden_dim": 8,
    "logit_scale": 0.7, "global_layer_freq": 3,
}  # fmt: skip


def tiny_model(seed: int = 0, **changes: Any) -> Apex1ForCausalLM:
    """A lively model of a few thousand weights; `changes` are config fields."""
    return lively(Apex1ForCausalLM(Apex1Config(**(TINY | changes))), seed)


def tokens(batch: int, seq: int, seed: int = 0, vocab: int = 64) -> torch.Tensor:
    return torch.randint(3, vocab, (batch, seq), generator=torch.Generator().manual_seed(seed))
