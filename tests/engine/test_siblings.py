"""Two values taken from one tensor: an edit of the first is there when the second is read."""

from __future__ import annotations

import torch

import nnatlas

IDS = torch.arange(40, 52)[None]


def test_an_edit_of_layer_mid_is_seen_by_mlp_input_at_the_same_stop():
    model = nnatlas.load("tiny:olmo2")
    block = model.layers[1]
    with model.trace(IDS) as written:
        block.layer_mid[:, 3] *= 2
        seen = block.mlp_input.clone()
        block.mlp_input[:, 5] *= 3
    with model.trace(IDS) as assigned:
        middle = block.layer_mid.clone()
        middle[:, 3] *= 2
        block.layer_mid = middle
        entering = block.mlp_input.clone()
        entering[:, 5] *= 3
        block.mlp_input = entering
    assert torch.equal(seen, middle)
    assert torch.equal(written.output.logits, assigned.output.logits)


def test_the_edit_of_the_second_does_not_reach_the_residual_branch():
    model = nnatlas.load("tiny:olmo2")
    block = model.layers[1]
    with model.trace(IDS):
        middle = block.layer_mid.clone()
        block.mlp_input[:] = 0
        leaving = block.layer_output.clone()
    with model.trace(IDS):
        block.mlp_input[:] = 0
        added = block.mlp.mlp_output.clone()
    torch.testing.assert_close(leaving, middle + added)
