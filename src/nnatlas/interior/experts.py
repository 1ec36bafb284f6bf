"""What the experts of a mixture compute, under any experts implementation.

The implementations keep their intermediate tensors in orders of their own (a loop, a sort by expert, one batched product),
so an expert's neurons are computed again here, from what the experts module was called with and its own gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nnatlas.bind.cells import native_point
from nnatlas.bind.points import INPUT, OUTPUT, Computed, Point
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run
from nnatlas.errors import LayoutError


class ExpertNeurons(NamedTuple):
    """`neurons [tokens, intermediate_size]` of one expert, and the `positions [tokens, 2]` (row, position) they belong to."""

    neurons: Tensor
    positions: Tensor


class AllExperts:
    """The neurons of any expert of one block: `expert_neurons(3)`.

    `indices [tokens, top_k]` are the experts of each token; `neurons(expert, tokens)` computes or finds one expert's.
    """

    def __init__(self, count: int, indices: Tensor, rows: int, neurons: Callable[[int, Tensor], Tensor]) -> None:
        self._count, self._indices, self._rows, self._neurons = count, indices, rows, neurons

    def __call__(self, expert: int) -> ExpertNeurons:
        """Neurons of one expert for the tokens routed to it, what its down projection receives; empty if it got none."""
        count = self._count
        if not -count <= expert < count:
            raise LayoutError(f"expert {expert} of {count}: experts are numbered 0 to {count - 1}")
        tokens = (self._indices == expert % count).any(-1).nonzero()[:, 0]
        seq = len(self._indices) // self._rows
        neurons = self._neurons(expert % count, tokens)
        return ExpertNeurons(neurons, torch.stack((tokens // seq, tokens % seq), -1))


def _entering(point: Computed) -> list[Point | Computed]:
    """What the experts module is called with: hidden states and expert indices."""
    return [_inside(point, "experts", "", INPUT, at) for at in (0, 1)]


def _inside(point: Computed, role: str, below: str, stage: str, item: int) -> Point:
    """A place at the module of a role, or at one beside it."""
    path = point.host.role(role)[1]
    path = path if not below else f"{path.rpartition('.')[0]}.{below}"
    return native_point(point.host.owner, f"{point.name}, {path} {stage} {item}", path, stage, item, point.value)


@derived(_entering)
def expert_neurons(run: Run, point: Computed, hidden: Tensor, indices: Tensor) -> AllExperts:
    """What `expert_neurons(e)` is called on, read where the experts are entered."""
    module, flat = point.host.role("experts")[0], hidden.reshape(-1, hidden.shape[-1])
    indices = indices.reshape(-1, indices.shape[-1])
    return AllExperts(
        point.host.sizes["num_experts"], indices, run.rows, lambda expert, at: _neurons(module, flat[at], expert)
    )


def _neurons(module: Any, hidden: Tensor, expert: int) -> Tensor:
    """The first half of one expert's MLP: up projection and gate."""
    if hasattr(module, "mlp"):  # one GLU whose weights hold those of all experts, one below the other
        glu = module.mlp
        own = (weight.unflatten(0, (module.num_experts, -1))[expert] for weight in (glu.w1, glu.v1))
        gate, up = (F.linear(hidden, weight) for weight in own)
        return glu.activation_fn(gate) * up
    gated = getattr(module, "has_gate", True)
    weight = (module.gate_up_proj if gated else module.up_proj)[expert]
    bias = getattr(module, "gate_up_proj_bias" if gated else "up_proj_bias", None)
    up = hidden @ weight if getattr(module, "is_transposed", False) else F.linear(hidden, weight)
    if bias is not None:
        up = up + bias[expert]
    if not gated:
        return module.act_fn(up)
    if hasattr(module, "_apply_gate"):
        return module._apply_gate(up)
    gate, up = up.chunk(2, dim=-1)
    return module.act_fn(gate) * up


def _chosen_then_entering(point: Computed) -> list[Point | Computed]:
    return [point.host.point("expert_indices"), _inside(point, "experts", "", INPUT, 0)]


@derived(_chosen_then_entering)
def batched_expert_neurons(run: Run, point: Computed, indices: Tensor, hidden: Tensor) -> AllExperts:
    """Where every expert is given every token, already weighed: `[num_experts tokens, hidden_size]`."""
    module = point.host.role("experts")[0]
    given = hidden.reshape(len(module.gate_up_proj), -1, hidden.shape[-1])

    def neurons(expert: int, tokens: Tensor) -> Tensor:
        gate, up = (given[expert, tokens] @ module.gate_up_proj[expert]).chunk(2, -1)
        return up * module.act_fn(gate)

    return AllExperts(len(given), indices.reshape(-1, indices.shape[-1]), run.rows, neurons)


def _sorted_tokens(point: Computed) -> list[Point | Computed]:
    chosen, order = point.host.point("expert_indices"), _inside(point, "router", "", OUTPUT, 1)
    return [chosen, order, _inside(point, "router", "output_linear", INPUT, 0)]


@derived(_sorted_tokens)
def sorted_expert_neurons(run: Run, point: Computed, indices: Tensor, tokens_of: Tensor, neurons: Tensor) -> AllExperts:
    """Where the tokens stand sorted by expert: `neurons [tokens top_k, intermediate_size]`, `tokens_of` names their tokens."""
    count = point.host.sizes["num_experts"]
    counts = torch.bincount(indices.flatten(), minlength=count).tolist()
    per_expert = list(zip(neurons.split(counts), tokens_of.split(counts), strict=True))

    def found(expert: int, tokens: Tensor) -> Tensor:
        rows, standing = per_expert[expert]
        return rows[standing.argsort()]

    return AllExperts(count, indices.reshape(-1, indices.shape[-1]), run.rows, found)
