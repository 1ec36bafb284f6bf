"""What the notes on Apertus claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    built,
    default,
    logits,
    pre_norms,
    shapes,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves, split_heads
from torch.nn import functional as F

from nnatlas import families


def block_equations(model: Any) -> None:
    pre_norms(model)
    the_mlp_has_no_gate(model)


def norms_answer_to_llamas_names(model: Any) -> None:
    block = model.layers[1]
    assert block.input_layernorm._module is block._module.attention_layernorm
    assert block.post_attention_layernorm._module is block._module.feedforward_layernorm


def post_norm_and_qk_norm_are_not_read(model: Any) -> None:
    other = tiny("apertus", "sdpa")
    other._module.config.post_norm, other._module.config.qk_norm = True, False
    again = type(other._module)(other._module.config)
    assert [name for name, _ in again.named_modules()] == [name for name, _ in model._module.named_modules()]
    assert torch.equal(logits(other), logits(tiny("apertus", "sdpa")))


def the_mlp_has_no_gate(model: Any) -> None:
    sizes_of_8b(model)
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        normed, up, before = mlp.input.clone(), mlp.up_proj.output.clone(), mlp.act_fn.input.clone()
        activation, neurons = mlp.mlp_activation.clone(), mlp.mlp_neurons.clone()
        written = mlp.mlp_output.clone()
    assert not hasattr(mlp._module, "gate_proj")
    assert torch.equal(up, before)
    torch.testing.assert_close(mlp.up_proj._module(normed), up)
    assert torch.equal(activation, neurons)
    torch.testing.assert_close(mlp.down_proj._module(neurons), written)


def xielu(x: torch.Tensor, a: float, b: float, beta: float = 0.5, eps: float = -1e-6) -> torch.Tensor:
    left = b * (torch.expm1(x.clamp(max=eps)) - x) + beta * x
    return torch.where(x > 0, a * x * x + beta * x, left)


def the_activation(model: Any) -> None:
    x = torch.linspace(-20, 20, 401)
    native = type(model.layers[1].mlp.act_fn._module)()  # as a checkpoint has it; a tiny model's buffers are moved
    assert (float(native.beta), native._eps_scalar) == (0.5, -1e-6)
    native.float()
    native.alpha_p.data.fill_(1.3)
    native.alpha_n.data.fill_(-0.4)
    a, b = F.softplus(torch.tensor(1.3)).item(), 0.5 + F.softplus(torch.tensor(-0.4)).item()
    torch.testing.assert_close(native(x), xielu(x, a, b), rtol=1e-5, atol=1e-4)


def each_block_has_its_own_two_numbers(model: Any) -> None:
    learned = [dict(block.mlp.act_fn._module.named_parameters()) for block in model.layers]
    assert all({name: one.numel() for name, one in own.items()} == {"alpha_p": 1, "alpha_n": 1} for own in learned)
    x = torch.tensor([-3.0, 2.0])
    activations = torch.stack([block.mlp.act_fn._module(x) for block in model.layers])
    assert len(activations.unique(dim=0)) == model.num_layers


def the_left_side_dips_and_rises(model: Any) -> None:
    curve = xielu(torch.tensor([-1.0, -5.0, -20.0]), 1.0, 1.068)
    torch.testing.assert_close(curve, torch.tensor([-0.107, 1.78, 10.3]), rtol=0, atol=0.01)
    x = torch.linspace(-2, 0, 2001)
    lowest = xielu(x, 1.0, 1.068).min(0)
    assert abs(lowest.values - -0.14) < 0.005
    assert abs(x[lowest.indices] - -0.63) < 0.005
    far = torch.tensor([-1000.0])
    torch.testing.assert_close(xielu(far, 1.0, 1.068) / 1000, torch.tensor([1.068 - 0.5]), rtol=0, atol=0.01)


def both_sides_write_with_a_positive_weight(model: Any) -> None:
    native = model.layers[1].mlp.act_fn._module
    assert native(torch.tensor([-20.0, 20.0])).min() > 0


def queries_and_keys(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        normed = attention.input.clone()
    pairs = before_and_after_rotary(model, 1)
    heads = [split_heads(getattr(attention, name)._module(normed), width) for name in ("q_proj", "k_proj")]
    by_hand = [getattr(attention, norm)._module(one) for norm, one in zip(("q_norm", "k_norm"), heads, strict=True)]
    for mine, (unrotated, entering) in zip(by_hand, pairs, strict=True):
        torch.testing.assert_close(mine, unrotated)
        torch.testing.assert_close(rotated_halves(mine, *turn(model)), entering)


def values_are_not_normed(model: Any) -> None:
    attention = model.layers[1].self_attn

    def triple() -> None:
        attention.v_proj.output[..., : model.head_dim] *= 3

    assert (logits(model, triple) - logits(model)).abs().max() > 0.05


def default_rotary(model: Any) -> None:
    rope = default(model).rope_parameters
    assert (rope["rope_type"], rope["rope_theta"], rope["factor"]) == ("llama3", 12_000_000.0, 8.0)
    assert rope["original_max_position_embeddings"] == 8192
    assert default(model).max_position_embeddings == 65536


def sizes_of_8b(model: Any) -> None:
    made = built("apertus", num_key_value_heads=8, intermediate_size=21504)
    block = made.model.layers[0]
    assert len(made.model.layers) == 32
    assert shapes(block.self_attn, ("q_proj.weight", "k_proj.weight", "q_norm.weight")) == [
        (32 * 128, 4096),
        (8 * 128, 4096),
        (128,),
    ]
    assert shapes(block.mlp, ("up_proj.weight", "down_proj.weight")) == [(21504, 4096), (4096, 21504)]


def apertus_1p5_has_its_own_row(model: Any) -> None:
    wrapper, text = families.find("apertus1p5"), families.find("apertus1p5_text")
    assert wrapper.name == "apertus1p5"
    assert text.name == "apertus"
