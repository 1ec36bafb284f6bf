"""The stream as a sum of parts: along any direction, on blocks of every kind, and with what comes in between."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import left_alone, tiny

from nnatlas.errors import Unavailable
from nnatlas.model.stream import identity_of, read_stream

PROMPTS = ["The tower", "Hi"]


def summed(model, position=-1):
    stream = read_stream(model, PROMPTS, position, [])
    direction = torch.randn(stream.final.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parts = stream.parts(direction)
    whole = (stream.final.double() * direction).sum(-1)
    torch.testing.assert_close(sum(part.amount for part in parts), whole, rtol=1e-4, atol=1e-3)
    return stream, parts


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("llama", {"attention", "mlp"}),
        ("doge", {"attention", "mlp"}),
        ("gemma4", {"attention", "mlp", "post_per_layer_input_norm"}),
        ("falcon_h1", {"attention", "mixer", "mlp"}),
        ("nemotron_h", {"attention", "mixer", "mlp"}),
        ("mamba", {"mixer"}),
        ("longcat_flash", {"attention", "mlp", "mlps.0", "self_attn.1", "mlps.1"}),
    ],
)
def test_the_last_stream_is_the_sum_of_its_parts(name, kinds):
    with left_alone(tiny(name)):
        _, parts = summed(tiny(name))
    assert {part.kind for part in parts} == kinds | {"start"}
    assert {part.block for part in parts} == {None, 0, 1, 2, 3}


def test_positions_are_each_rows_own():
    model = tiny("llama")
    stream, _ = summed(model, 1)
    found = model.collect(PROMPTS, "layers.3.layer_output")["layers.3.layer_output"]
    torch.testing.assert_close(stream.final, torch.stack([found[0, 1], found[1, 8]]))


def test_what_is_added_between_two_blocks_is_a_part_of_its_own():
    model = tiny("llama")
    bump = torch.randn(model.hidden_size, generator=torch.Generator().manual_seed(1))
    handle = model.layers[2]._module.register_forward_pre_hook(lambda _, args: (args[0] + bump, *args[1:]))
    try:
        _, parts = summed(model)
    finally:
        handle.remove()
    [between] = [part for part in parts if part.kind == "after"]
    assert between.block == 1
    torch.testing.assert_close(between.tensor, bump.expand(2, -1), atol=1e-5, rtol=1e-4)


def test_a_block_states_its_own_identity():
    model = tiny("nemotron_h")
    stated = {identity_of(block) for block in model._owner.blocks}
    assert "layer_input + mlp_output = layer_output" in stated and len(stated) == 2


def test_a_stream_that_is_no_sum_is_refused_with_its_reason():
    with pytest.raises(Unavailable, match="every stream takes its own share") as error:
        read_stream(tiny("deepseek_v4"), "Hi", -1, [])
    assert error.value.reason.startswith("every stream takes")
