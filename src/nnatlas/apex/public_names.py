"""Weights of the public implementation, brought under this one's names.

The parameter names are the document's in both; what differs is that here the model proper sits under `model.`, the
routed experts of a block are stacked, and a router bias is part of the weights.
"""

from __future__ import annotations

import re

import torch

_EXPERT = re.compile(r"(?P<ffn>blocks\.\d+\.ffn)\.routed_experts\.(?P<expert>\d+)\.(?P<matrix>W_\w+)\.weight")
_TABLES = re.compile(r"(cos|sin)_cache(_rope)?")


def from_public_names(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict for `Apex1ForCausalLM.load_state_dict` from the public implementation's.

    Rotary tables are left out (they are computed), experts [intermediate, hidden] become rows of the stacked tensors,
    and the tied head is added.
    """
    ours: dict[str, torch.Tensor] = {}
    experts: dict[str, dict[str, dict[int, torch.Tensor]]] = {}
    for name, tensor in weights.items():
        match = _EXPERT.fullmatch(name)
        if match:
            of_block = experts.setdefault(match["ffn"], {})
            of_block.setdefault(match["matrix"], {})[int(match["expert"])] = tensor
        elif not _TABLES.fullmatch(name):
            ours[name if name.startswith("multi_token_head.") else f"model.{name}"] = tensor
    for ffn, matrices in experts.items():
        gate, up, down = (_stack(matrices[matrix]) for matrix in ("W_gate", "W_up", "W_down"))
        ours[f"model.{ffn}.routed_experts.gate_up_proj"] = torch.cat((gate, up), dim=1)
        ours[f"model.{ffn}.routed_experts.down_proj"] = down
        ours.setdefault(f"model.{ffn}.expert_bias", torch.zeros(len(gate)))
    ours["lm_head.weight"] = ours["model.embedding.weight"]
    return ours


def _stack(by_expert: dict[int, torch.Tensor]) -> torch.Tensor:
    return torch.stack([by_expert[i] for i in range(len(by_expert))])
