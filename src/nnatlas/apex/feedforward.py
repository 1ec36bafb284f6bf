"""Feed-forwards: a dense SwiGLU, and a mixture of SwiGLU experts with shared ones that every token passes through.

What is unusual
- balancing needs no auxiliary loss: a bias per expert decides who is *chosen* and never enters the weights of the
  mixture (arXiv:2408.15664); it is saved with the weights, and `balancing.py` moves it after each optimiser step;
- the routed experts are stacked tensors and run through transformers' experts interface (grouped where available).
"""

from __future__ import annotations

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.integrations import use_experts_implementation

from nnatlas.apex.configuration import Apex1Config


class Apex1MLP(nn.Module):
    """SwiGLU: W_down(act(W_gate x) * W_up x)  (arXiv:2002.05202)."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.W_gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.W_up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.W_down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> [..., hidden]"""
        return self.W_down(self.act_fn(self.W_gate(x)) * self.W_up(x))


class Apex1SharedExperts(nn.ModuleList):
    """The experts every token passes through, each with weight 1."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__(Apex1MLP(config) for _ in range(config.n_shared_experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> the sum of the shared experts' outputs."""
        outputs = [expert(x) for expert in self]
        return sum(outputs[1:], outputs[0]) if outputs else torch.zeros_like(x)


class Apex1Router(nn.Module):
    """Scores every expert for every token and picks `num_experts_per_tok` of them; float32 throughout."""

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.top_k, self.weights_are_biased = config.num_experts_per_tok, config.legacy_expert_weights
        self.weight = nn.Parameter(torch.empty(config.num_local_experts, config.hidden_size))

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x [tokens, hidden], bias [experts] -> logits [tokens, experts], weights and indices [tokens, top k].

        Indices go by the biased logits, best first; the weights are a softmax over the chosen experts' own logits.
        """
        logits = nn.functional.linear(x.float(), self.weight.float())
        biased = logits + bias
        indices = biased.topk(self.top_k, dim=-1).indices
        chosen = (biased if self.weights_are_biased else logits).gather(-1, indices)
        return logits, chosen.softmax(dim=-1).to(x.dtype), indices


@use_experts_implementation
class Apex1Experts(nn.Module):
    """All routed experts of a block, stacked: gate and up [experts, 2 * intermediate, hidden], down [experts, hidden,
    ...].

    The decorator sends the call to the implementation the config names; this forward is the plain loop, "eager".
    """

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.num_experts = config.num_local_experts
        stacked = (config.num_local_experts, 2 * config.intermediate_size, config.hidden_size)
        self.gate_up_proj = nn.Parameter(torch.empty(stacked))
        self.down_proj = nn.Parameter(torch.empty(stacked[0], config.hidden_size, config.intermediate_size))
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x: torch.Tensor, indices: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """x [tokens, hidden], indices and weights [tokens, top k] -> the weighted sum of each token's experts."""
        mixed = torch.zeros_like(x)
        for expert in indices.unique().tolist():
            token, rank = torch.where(indices == expert)
            gate, up = nn.functional.linear(x[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
            output = nn.functional.linear(self.act_fn(gate) * up, self.down_proj[expert])
            mixed.index_add_(0, token, output * weights[token, rank, None])
        return mixed


class Apex1MoE(nn.Module):
    """Shared experts plus the router's choice of routed ones.

    `expert_bias` steers the choice and is part of the weights.  `expert_load` counts, in training, how many tokens
    chose each expert since the bias last moved: over all micro-batches, padding left out.
    """

    expert_bias: torch.Tensor
    # not a buffer: data-parallel training copies buffers from its first replica to the others, and would lose the
    # counts
    expert_load: torch.Tensor | None = None

    def __init__(self, config: Apex1Config) -> None:
        super().__init__()
        self.balancer_alpha = config.balancer_alpha
        self.router = Apex1Router(config)
        self.routed_experts = Apex1Experts(config)
        self.shared_experts = Apex1SharedExperts(config)
        self.register_buffer("expert_bias", torch.zeros(config.num_local_experts, dtype=torch.float32))

    def forward(self, x: torch.Tensor, real_tokens: torch.Tensor | None = None) -> torch.Tensor:
        """[batch, seq, hidden] -> [batch, seq, hidden]; `real_tokens` [batch, seq] is False on padding."""
        flat = x.reshape(-1, x.shape[-1])
        _, weights, indices = self.router(flat, self.expert_bias)
        if self.training:
            self.count(indices if real_tokens is None else indices[real_tokens.reshape(-1)])
        routed = self.routed_experts(flat, indices, weights)
        return routed.view_as(x) + self.shared_experts(x)

    @torch.no_grad()
    def count(self, indices: torch.Tensor) -> None:
        """Add the experts that tokens chose, [tokens, top k], to the load."""
        counts = torch.bincount(indices.reshape(-1), minlength=len(self.expert_bias))
        self.expert_load = counts if self.expert_load is None else self.expert_load + counts
