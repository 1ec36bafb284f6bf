"""Between native tensor and value: axes that a call leaves out, values through a function, and back again."""

from __future__ import annotations

import pytest
import torch

from nnatlas.bind.codec import LEAST, Codec, View
from nnatlas.places import parse

SIZES = {"channels": 3, "state_size": 2}


def view_of(axes: str, target: str) -> View:
    pattern = parse(f"m > out : {axes}").pattern
    assert pattern is not None
    return View(pattern, tuple(target.split()), SIZES)


@pytest.mark.parametrize("tokens", [1, 4])
def test_an_axis_that_may_be_left_out_is_there_either_way(tokens):
    codec = Codec(view_of("batch channels seq?", "batch seq channels"))
    whole = torch.arange(2.0 * 3 * tokens).reshape(2, 3, tokens)
    assert torch.equal(codec.take(whole, 2), whole.transpose(1, 2))
    single = whole[..., 0]  # as a function for one token has it
    assert torch.equal(codec.take(single, 2), single[:, None])
    assert torch.equal(codec.put(single, codec.take(single, 2) + 1, 2), single + 1)
    assert single.shape == (2, 3)


def test_a_value_through_exp_goes_back_by_its_logarithm():
    codec, rates = Codec(through="exp"), torch.tensor([[-0.5, -2.0, 0.0]])
    kept = codec.take(rates, 1)
    assert torch.allclose(kept, torch.tensor([[0.60653, 0.13534, 1.0]]), atol=1e-5)
    assert torch.allclose(codec.put(rates, kept, 1), rates, atol=1e-6)
    nothing = codec.put(rates, torch.zeros(1, 3), 1)
    assert torch.isfinite(nothing).all()
    assert float(nothing.exp().max()) <= LEAST * 1.01


def test_a_value_through_sigmoid_goes_back_by_its_logit():
    codec, gates = Codec(through="sigmoid"), torch.tensor([-3.0, 0.0, 2.0])
    assert torch.allclose(codec.take(gates, 1), torch.tensor([0.04743, 0.5, 0.88080]), atol=1e-5)
    assert torch.allclose(codec.put(gates, codec.take(gates, 1), 1), gates, atol=1e-5)


def test_reading_through_a_function_leaves_the_very_numbers():
    codec, rates = Codec(through="exp"), torch.tensor([-0.1234567, -7.654321])
    value = codec.take(rates, 1).requires_grad_()
    rejoined = codec.rejoin(rates, value, 1)
    assert torch.equal(rejoined, rates)
    (gradient,) = torch.autograd.grad(rejoined.sum(), [value])
    assert torch.allclose(gradient, 1 / value)


@pytest.mark.parametrize("apart", [False, True], ids=["flattened", "apart"])
def test_tokens_may_be_one_axis_or_two(apart):
    """`(batch seq)` fits a tensor either way, and what else is split or narrowed stays where it is."""
    codec = Codec(view_of("(batch seq) (channels | state_size) -> 1", "batch seq state_size"))
    whole = torch.arange(2.0 * 4 * 5).reshape(2, 4, 5)
    native = whole if apart else whole.reshape(8, 5)
    assert torch.equal(codec.take(native, 2), whole[..., 3:])
    written = codec.put(native, codec.take(native, 2) + 100, 2)
    assert written.shape == native.shape
    assert torch.equal(written.reshape(2, 4, 5)[..., 3:], whole[..., 3:] + 100)
    assert torch.equal(written.reshape(2, 4, 5)[..., :3], whole[..., :3])


@pytest.mark.parametrize(
    "codec", [Codec(scales=((lambda: 0.3, False),)), Codec(through="sigmoid")], ids=["scaled", "sigmoid"]
)
def test_numbers_that_were_not_edited_stay_bit_for_bit(codec):
    """Dividing a factor out again, or a logit, would move the last bit of every number."""
    native = torch.randn(64, 33, generator=torch.Generator().manual_seed(0))
    value = codec.take(native, 1).clone()
    assert torch.equal(codec.put(native, value, 1), native)
    value[5] = 0.25
    written = codec.put(native, value, 1)
    assert torch.equal(written[:5], native[:5])
    assert torch.equal(written[6:], native[6:])
    torch.testing.assert_close(codec.take(written, 1)[5], torch.full((33,), 0.25))
