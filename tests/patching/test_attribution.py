"""Attribution patching: gradient times difference, by hand; and how near it comes to the exact sweep."""

from __future__ import annotations

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED, metric, value_of
from tests.tiny_models import left_alone, tiny
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.patching import activation_patching, attribution_patching


def by_hand(model: object, path: str, layer: int) -> Tensor:
    """Gradient times difference at one block, summed over the width, `[seq]`."""
    with torch.no_grad(), model.trace(CLEAN):
        clean = value_of(model, path, layer).clone()
    with torch.enable_grad(), model.trace(CORRUPTED):
        value = value_of(model, path, layer).requires_grad_()
        logits = model.logits
    score = metric(logits[:, -1]).sum()
    (gradient,) = torch.autograd.grad(score, [value])
    return (score + (gradient * (clean - value)).sum(-1)[0]).detach()


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "gpt_neox", "mixtral"])
@pytest.mark.parametrize("path", ["layer_output", "self_attn.attention_output", "mlp.mlp_output"])
def test_it_is_the_gradient_times_the_difference(name, path):
    model = tiny(name)
    found = attribution_patching(model, CLEAN, CORRUPTED, path, metric=metric)
    for layer in (0, 2):
        torch.testing.assert_close(found.values[0, layer, 2:], by_hand(model, path, layer)[2:], atol=1e-4, rtol=1e-4)
    assert found.note == "an estimate: gradient times difference"


def test_heads_share_out_the_whole():
    """Effects of heads sum to the effect of all of them, since the estimate is linear."""
    model = tiny("llama")
    heads, whole = (
        attribution_patching(model, CLEAN, CORRUPTED, "attention_premix", over, metric)
        for over in ("layer x head", "layer")
    )
    effects = (heads.values - heads.corrupted).sum(-1)
    torch.testing.assert_close(effects, whole.values - whole.corrupted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("share", [1e-2, 1e-3])
def test_a_small_patch_in_the_last_block_is_estimated_to_first_order(share):
    """The exact effect of `share` of the difference, over `share`, goes to the estimate, and its error with it."""
    model = tiny("llama")
    estimate = attribution_patching(model, CLEAN, CORRUPTED, "mlp_output", metric=metric)
    with torch.no_grad(), model.trace(CLEAN):
        clean = model.layers[3].mlp.mlp_output.clone()
    with torch.no_grad(), model.trace(CORRUPTED):
        value = model.layers[3].mlp.mlp_output
        value[:, -1] = torch.lerp(value, clean, share)[:, -1]
        moved = metric(model.logits[:, -1].double())
    base = float(estimate.corrupted)
    predicted = float(estimate.values[0, 3, -1]) - base
    assert abs(predicted) > 1e-2
    assert (float(moved) - base) / share == pytest.approx(predicted, abs=2 * share + 1e-3)


def test_the_agreement_is_told_and_more_steps_bring_it_nearer():
    model = tiny("llama")
    exact = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
    one, many = (
        attribution_patching(model, CLEAN, CORRUPTED, metric=metric, steps=steps).agreement(exact) for steps in (1, 8)
    )
    pair = torch.stack([attribution_patching(model, CLEAN, CORRUPTED, metric=metric).values, exact.values]).flatten(1)
    assert one.correlation == pytest.approx(float(torch.corrcoef(pair.double())[0, 1]), abs=1e-6)
    assert one.max_error == pytest.approx(float((pair[0] - pair[1]).abs().max()), abs=1e-6)
    assert one.correlation > 0.5 and many.correlation > one.correlation
    assert exact.agreement(exact) == pytest.approx((1.0, 0.0), abs=1e-9)


def test_integrated_over_the_way_the_first_stream_accounts_for_the_whole_difference():
    """Completeness of integrated gradients (Sundararajan et al. 2017): effects at the entry sum to clean - corrupted."""
    model = tiny("gpt2")
    found = attribution_patching(model, CLEAN, CORRUPTED, "layer_input", metric=metric, steps=64)
    effects = (found.values[0, 0] - found.corrupted).sum()
    assert float(effects) == pytest.approx(float(found.clean - found.corrupted), abs=0.02)


def test_it_leaves_no_gradients_and_no_hooks():
    model = tiny("llama")
    with left_alone(model):
        found = attribution_patching(model, CLEAN, CORRUPTED, metric=metric)
    assert not found.values.requires_grad
    assert all(parameter.grad is None for parameter in model._module.parameters())
    with pytest.raises(InputError, match="steps=0: give a whole number, 1 or more"):
        attribution_patching(model, CLEAN, CORRUPTED, metric=metric, steps=0)


def test_grids_of_other_sizes_are_not_compared():
    model = tiny("llama")
    one = attribution_patching(model, CLEAN, CORRUPTED, metric=metric)
    other = attribution_patching(model, CLEAN[:11], CORRUPTED[:11], metric=metric)
    with pytest.raises(InputError, match=r"\[1, 4, 12\] and \[1, 4, 11\]"):
        one.agreement(other)
