"""What the experts of a mixture compute, under any experts implementation.

The implementations keep their intermediate tensors in orders of their own (a loop, a sort by expert, one batched product),
so an expert's neurons are computed again here, from what the experts module was called with and its own gate.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nnatlas.bind.cells import native_point
from nnatlas.bind.points import INPUT, Computed, Point
from nnatlas.engine.derived import derived
from nnatlas.engine.run import Run
from nnatlas.errors import LayoutError


class ExpertNeurons(NamedTuple):
    """`neurons [tokens, intermediate_size]` of one expert, and the `positions [tokens, 2]` (row, position) they belong to."""

    neurons: Tensor
    positions: Tensor


class AllExperts:
    """The neurons of any expert of one block: `expert_neurons(3)`."""

    def __init__(self, module: nn.Module, hidden: Tensor, indices: Tensor, rows: int) -> None:
        self._module, self._hidden, self._indices, self._rows = module, hidden, indices, rows

    def __call__(self, expert: int) -> ExpertNeurons:
        """Neurons of one expert for the tokens routed to it, what its down projection receives; empty if it got none."""
        count = self._module.num_experts
        if not -count <= expert < count:
            raise LayoutError(f"expert {expert} of {count}: experts are numbered 0 to {count - 1}")
        tokens = (self._indices == expert % count).any(-1).nonzero()[:, 0]
        seq = len(self._hidden) // self._rows
        return ExpertNeurons(
            _neurons(self._module, self._hidden[tokens], expert % count), torch.stack((tokens // seq, tokens % seq), -1)
        )


def _neurons(module: nn.Module, hidden: Tensor, expert: int) -> Tensor:
    """The first half of one expert's MLP: up projection and gate."""
    gated = getattr(module, "has_gate", True)
    weight = (module.gate_up_proj if gated else module.up_proj)[expert]
    bias = getattr(module, "gate_up_proj_bias" if gated else "up_proj_bias", None)
    up = hidden @ weight if getattr(module, "is_transposed", False) else F.linear(hidden, weight)
    if bias is not None:
        up = up + bias[expert]
    return module._apply_gate(up) if gated else module.act_fn(up)


def _entering(point: Computed) -> list[Point | Computed]:
    """What the experts module is called with: hidden states and expert indices."""
    path = point.host.role("experts")[1]
    return [
        native_point(point.host.owner, f"{point.name}, argument {at}", path, INPUT, at, point.value) for at in (0, 1)
    ]


@derived(_entering)
def expert_neurons(run: Run, point: Computed, hidden: Tensor, indices: Tensor) -> AllExperts:
    """What `expert_neurons(e)` is called on, read where the experts are entered."""
    module = point.host.role("experts")[0]
    return AllExperts(module, hidden.reshape(-1, hidden.shape[-1]), indices.reshape(-1, indices.shape[-1]), run.rows)
