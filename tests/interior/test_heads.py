"""Each head's part where the output projection is more, or elsewhere, than a weight of its own."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.tiny_models import IDS, tiny
from torch import nn

from nnatlas.model import load


class Adapted(nn.Module):
    """A projection with a low-rank adapter beside it, which passes off the matrix's weight as its own."""

    def __init__(self, base):
        super().__init__()
        self.base, self.down, self.up = base, nn.Linear(base.in_features, 4), nn.Linear(4, base.out_features)

    @property
    def weight(self):
        return self.base.weight

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapted(module):
    module.model.layers[1].self_attn.o_proj = Adapted(module.model.layers[1].self_attn.o_proj)
    return module


def offloaded(module):
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload(module, execution_device=torch.device("cpu"))


@pytest.mark.parametrize("change", [adapted, offloaded])
def test_the_parts_sum_to_what_is_added(change):
    model = load(change(copy.deepcopy(tiny()._module)))
    projection = model.layers[1].self_attn.o_proj._module
    projection.register_forward_hook(lambda module, args, output: output if args[0].ndim == 3 else output * 7)
    with model.trace(IDS):
        attention = model.layers[1].self_attn
        parts, added = attention.attention_head_contributions, attention.attention_output
    bias = projection.forward(torch.zeros(1, model.num_heads * model.head_dim))
    torch.testing.assert_close(parts.sum(2) + bias, added, atol=1e-5, rtol=1e-5)
    assert parts.std() > 1e-3
