"""An independent APEX-1: one token, one head, one expert at a time, in float64, with the masks written out as rules.

Slow on purpose, and shares no code with the model.  It reads a model's weights by name and recomputes every token from
nothing, so it has no cache to get wrong.
"""

from __future__ import annotations

import math

import torch

F64 = torch.float64


def silu(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-x))


def frequencies(config, width: int) -> list[float]:
    """Angles per position; YaRN's ramp is computed from the wavelengths as in the paper's section 3.2."""
    rope = config.rope_parameters
    base = rope["rope_theta"]
    plain = [base ** (-2 * j / width) for j in range(width // 2)]
    if rope["rope_type"] == "default":
        return plain
    s, original = rope["factor"], rope["original_max_position_embeddings"]

    def index_of(rotations: float) -> float:
        return width * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(index_of(32)), 0), min(math.ceil(index_of(1)), width - 1)
    high = high + 0.001 if high == low else high
    ramp = [min(max((j - low) / (high - low), 0), 1) for j in range(width // 2)]
    return [theta / s * r + theta * (1 - r) for theta, r in zip(plain, ramp, strict=True)]


def rotate(x: torch.Tensor, position: int, thetas: list[float]) -> torch.Tensor:
    out = x.clone()
    for j, theta in enumerate(thetas):
        c, s = math.cos(position * theta), math.sin(position * theta)
        a, b = x[2 * j].item(), x[2 * j + 1].item()
        out[2 * j], out[2 * j + 1] = a * c - b * s, b * c + a * s
    return out


def visible(i: int, j: int, prefix: int, window: int | None) -> bool:
    if i < prefix:
        return j < prefix
    return j <= i and (window is None or i - j < window)


class Oracle:
    def __init__(self, model) -> None:
        self.config = model.config
        self.w = {name: t.detach().to(F64) for name, t in model.state_dict().items()}
        rope = self.config.rope_parameters
        self.mscale = 1.0 if rope["rope_type"] == "default" else 0.1 * math.log(rope["factor"]) + 1

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean() + self.config.rms_norm_eps) * self.w[name]

    def heads(self, i: int, x: list[torch.Tensor]):
        """Per position: list of query heads, key heads, value heads, ready for dot products."""
        c, b = self.config, f"model.blocks.{i}.attn."
        is_global = (i + 1) % c.global_layer_freq == 0
        thetas = frequencies(c, c.qk_rope_head_dim if is_global else c.head_dim)
        hq, hk, d = c.num_attention_heads, c.num_key_value_heads, c.head_dim

        def cut(v: torch.Tensor, n: int) -> list[torch.Tensor]:
            return list(v.reshape(n, -1))

        for p, v in enumerate(x):
            W = lambda name, u: self.w[f"{b}{name}.weight"] @ u
            if is_global:
                latent = W("W_DKV", v)
                rope_q = [rotate(h, p, thetas) for h in cut(W("W_QR", v), hq)]
                rope_k = [rotate(h, p, thetas) for h in cut(W("W_KR", v), hk)]
                q = [torch.cat(pair) for pair in zip(cut(W("W_UQ", W("W_DQ", v)), hq), rope_q, strict=True)]
                k = [torch.cat(pair) for pair in zip(cut(W("W_UK", latent), hk), rope_k, strict=True)]
                yield q, k, cut(W("W_UV", latent), hk)
            else:
                q = [rotate(h, p, thetas) for h in cut(W("W_Q", v), hq)]
                k = [rotate(h, p, thetas) for h in cut(W("W_K", v), hk)]
                yield q, k, cut(W("W_V", v), hk)
        assert d

    def attention(self, i: int, x: list[torch.Tensor], prefix: int) -> list[torch.Tensor]:
        c = self.config
        is_global = (i + 1) % c.global_layer_freq == 0
        width = c.head_dim + c.qk_rope_head_dim if is_global else c.head_dim
        scale, groups = self.mscale**2 / math.sqrt(width), c.num_attention_heads // c.num_key_value_heads
        rows, out = list(self.heads(i, x)), []
        for p, (q, _, _) in enumerate(rows):
            seen = [j for j in range(len(rows)) if visible(p, j, prefix, None if is_global else c.sliding_window)]
            mixed = []
            for h, query in enumerate(q):
                scores = torch.stack([(query * rows[j][1][h // groups]).sum() * scale for j in seen])
                weights = torch.exp(scores - scores.max())
                weights = weights / weights.sum()
                mixed.append(sum(weights[n] * rows[j][2][h // groups] for n, j in enumerate(seen)))
            out.append(self.w[f"model.blocks.{i}.attn.W_O.weight"] @ torch.cat(mixed))
        return out

    def swiglu(self, v: torch.Tensor, gate, up, down) -> torch.Tensor:
        return down @ (silu(gate @ v) * (up @ v))

    def feed_forward(self, i: int, v: torch.Tensor) -> torch.Tensor:
        c, f = self.config, f"model.blocks.{i}.ffn."
        named = lambda stem: [self.w[f"{f}{stem}{m}.weight"] for m in ("W_gate", "W_up", "W_down")]
        if not (c.moe_enabled and i % c.moe_layer_freq != 0):
            return self.swiglu(v, *named(""))
        total = sum(self.swiglu(v, *named(f"shared_experts.{s}.")) for s in range(c.n_shared_experts))
        logits = self.w[f"{f}router.weight"] @ v
        biased = logits + self.w[f"{f}expert_bias"]
        chosen = sorted(range(len(logits)), key=lambda e: -biased[e].item())[: c.num_experts_per_tok]
        weights = torch.exp((biased if c.legacy_expert_weights else logits)[chosen])
        weights = weights / weights.sum()
        for weight, e in zip(weights, chosen, strict=True):
            gate_up = self.w[f"{f}routed_experts.gate_up_proj"][e]
            half = c.intermediate_size
            total = total + weight * self.swiglu(
                v, gate_up[:half], gate_up[half:], self.w[f"{f}routed_experts.down_proj"][e]
            )
        return total

    def passes_gate(self, i: int, v: torch.Tensor) -> bool:
        if not self.config.skip_gate_enabled:
            return True
        g = f"model.blocks.{i}.skip_gate.gate_mlp."
        hidden = silu(self.w[f"{g}0.weight"] @ v + self.w[f"{g}0.bias"])
        gate = 1 / (1 + torch.exp(-(self.w[f"{g}2.weight"] @ hidden + self.w[f"{g}2.bias"])))
        return gate.item() >= self.config.skip_gate_threshold

    def row(self, ids: list[int], prefix: int = 0) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """One row of ids -> logits [seq, vocab] and the heads' logits, each [seq, vocab]."""
        c, E = self.config, self.w["model.embedding.weight"]
        x = [E[t] * math.sqrt(c.hidden_size) for t in ids]
        for i in range(c.num_hidden_layers):
            mixed = self.attention(i, [self.norm(v, f"model.blocks.{i}.norm1.weight") for v in x], prefix)
            x = [v + m for v, m in zip(x, mixed, strict=True)]
            x = [
                v + self.feed_forward(i, self.norm(v, f"model.blocks.{i}.norm2.weight"))
                if self.passes_gate(i, v)
                else v
                for v in x
            ]
        h = torch.stack([self.norm(v, "model.final_norm.weight") for v in x])
        heads = [self.w[f"multi_token_head.heads.{k}.weight"] for k in range(c.n_predict)]
        return h @ E.T * c.logit_scale, [h @ w.T for w in heads]

    def batch(self, ids: torch.Tensor, prefix: int = 0) -> torch.Tensor:
        return torch.stack([self.row(row.tolist(), prefix)[0] for row in ids])
