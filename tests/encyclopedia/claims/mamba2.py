"""What the notes on Mamba 2 claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import IDS, built, default, logits, of_block, tiny
from torch import Tensor
from torch.nn import functional as F

import nnatlas
from nnatlas import families


def mixed(model: Any, block: int, names: str) -> list[Tensor]:
    """Values of one mixer from a run that keeps a cache, by name."""
    mixer = model.layers[block].linear_attn
    with model.trace(IDS, use_cache=True):
        return [getattr(mixer, name).clone() for name in names.split()]


def block_equations(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        entering, normed = block.layer_input.clone(), block.attention_norm_output.clone()
        added, leaving = block.linear_attn.attention_output.clone(), block.layer_output.clone()
    torch.testing.assert_close(block._module.norm(entering), normed)
    torch.testing.assert_close(block._module.mixer(normed), added)
    torch.testing.assert_close(entering + added, leaving)


def one_contribution(model: Any) -> None:
    for block in range(model.num_layers):
        entering, added, leaving = of_block(model, block, "layer_input linear_attn.attention_output layer_output")
        torch.testing.assert_close(entering + added, leaving)
        assert added.norm() > 1e-2


def no_attention_and_no_mlp(model: Any) -> None:
    support = model.support()
    assert "linear_attn" in support["self_attn.attention_queries"]
    assert "no MLP" in support["mlp.mlp_output"]
    assert "no MLP" in support["block.layer_mid"]
    assert not hasattr(model.layers[1], "self_attn")


def the_mixer_is_linear_attn(model: Any) -> None:
    assert model.layers[1].linear_attn._module is model._module.backbone.layers[1].mixer


def mixer_equations(model: Any) -> None:
    native, config = model.layers[1].linear_attn._module, model.config
    (read,) = of_block(model, 1, "attention_norm_output")
    queries, keys, values, betas, decays, outputs, added = mixed(
        model,
        1,
        "attention_queries attention_keys attention_values betas decays attention_head_outputs attention_output",
    )
    channels, groups = native.intermediate_size, config.n_groups * config.state_size
    gate, inner, steps = native.in_proj(read).split([channels, channels + 2 * groups, config.num_heads], -1)
    convolved = F.silu(native.conv1d(inner.mT)[..., : IDS.shape[1]]).mT
    parts = convolved.split([channels, groups, groups], -1)
    for part, served in zip(parts, (values, keys, queries), strict=True):
        torch.testing.assert_close(part, served.flatten(2))
    torch.testing.assert_close(F.softplus(steps + native.dt_bias), betas)
    torch.testing.assert_close(torch.exp(-native.A_log.exp() * betas), decays)
    repeat = config.num_heads // config.n_groups
    keys, queries = keys.repeat_interleave(repeat, 2), queries.repeat_interleave(repeat, 2)
    state = torch.zeros(1, config.num_heads, config.head_dim, config.state_size)
    for token in range(IDS.shape[1]):
        written = betas[:, token, :, None, None] * values[:, token, :, :, None] * keys[:, token, :, None, :]
        state = decays[:, token, :, None, None] * state + written
        read_out = (state @ queries[:, token, :, :, None])[..., 0] + native.D[:, None] * values[:, token]
        torch.testing.assert_close(read_out, outputs[:, token], rtol=1e-3, atol=1e-4)
    gated = outputs.flatten(2) * F.silu(gate)
    by_group = gated.unflatten(-1, (config.n_groups, -1))
    normed = by_group * (by_group.square().mean(-1, keepdim=True) + config.layer_norm_epsilon).rsqrt()
    torch.testing.assert_close(native.out_proj(normed.flatten(2) * native.norm.weight), added, rtol=1e-3, atol=1e-4)


def the_state_is_written_by_keys_and_values(model: Any) -> None:
    keys, values, betas, decays, states = mixed(model, 1, "attention_keys attention_values betas decays states")
    keys = keys.repeat_interleave(model.config.num_heads // model.config.n_groups, 2)
    written = betas[..., None, None] * values[..., None] * keys[..., None, :]
    expected = decays[:, 1:, :, None, None] * states[:, :-1] + written[:, 1:]
    torch.testing.assert_close(expected, states[:, 1:], rtol=1e-3, atol=1e-4)
    assert decays.min() > 0
    assert decays.max() < 1


def the_last_state_is_the_output(model: Any) -> None:
    start, states, last = mixed(model, 1, "state_input states state_output")
    assert start.abs().max() == 0
    torch.testing.assert_close(states[:, -1], last, rtol=1e-3, atol=1e-4)


def one_step_size_for_two(model: Any) -> None:
    mixer = model.layers[1].linear_attn
    betas, decays = mixed(model, 1, "betas decays")
    with model.trace(IDS, use_cache=True):
        mixer.time_steps[:] += 1
        larger, shorter = mixer.betas.clone(), mixer.decays.clone()
    assert (larger > betas).all()
    assert (shorter < decays).all()


def the_stream_is_float32(model: Any) -> None:
    assert default(model).residual_in_fp32 is True
    half = tiny("mamba2", "eager")
    half._module.bfloat16()
    added, leaving = of_block(half, 1, "linear_attn.attention_output layer_output")
    assert (added.dtype, leaving.dtype) == (torch.bfloat16, torch.float32)


def a_late_edit_reaches_the_next_step(model: Any) -> None:
    def generated(edit: bool) -> tuple[Tensor, Tensor]:
        seen = []
        with model.generate(IDS, max_new_tokens=2, do_sample=False) as run:
            for step in run.steps():
                if edit and step == 0:
                    model.layers[1].linear_attn.state_output[:] = 3.0
                seen.append(model.logits[:, -1].clone())
        return seen[0], seen[1]

    plain, edited = generated(False), generated(True)
    torch.testing.assert_close(plain[0], edited[0])
    assert not torch.allclose(plain[1], edited[1], atol=1e-3)


def order_without_positions(model: Any) -> None:
    assert default(model).conv_kernel == 4
    assert not any("rotary" in name or "position" in name for name, _ in model._module.named_modules())
    swapped = IDS.clone()
    swapped[0, :2] = swapped[0, :2].flip(0)
    with model.trace(swapped):
        other = model.logits[:, -1].clone()
    assert not torch.allclose(other, logits(model)[:, -1], atol=1e-4)


def the_convolution_looks_back(model: Any) -> None:
    mixer, token = model.layers[0].linear_attn, 5
    (before,) = mixed(model, 0, "conv_output")
    with model.trace(IDS, use_cache=True):
        mixer.in_proj.output[:, token] += 1
        after = mixer.conv_output.clone()
    moved = (before - after).abs().amax((0, 2)).nonzero()[:, 0].tolist()
    assert moved == list(range(token, token + model.config.conv_kernel))
    assert len(moved) == 4


def no_bias_in_the_input(model: Any) -> None:
    assert default(model).use_bias is False
    assert "padding" in str(families.find("mamba2").breaks)


def heads_share_keys_by_groups(model: Any) -> None:
    keys, values = mixed(model, 1, "attention_keys attention_values")
    assert keys.shape == (1, IDS.shape[1], model.config.n_groups, model.config.state_size)
    assert values.shape == (1, IDS.shape[1], model.config.num_heads, model.config.head_dim)
    assert 1 < model.config.n_groups < model.config.num_heads
    assert default(model).head_dim == 64


def default_sizes(model: Any) -> None:
    made = built("mamba2", num_hidden_layers=1)
    mixer, config = made.backbone.layers[0].mixer, default(model)
    assert (config.num_heads, config.n_groups, config.state_size) == (128, 8, 128)
    assert mixer.out_proj.weight.shape == (4096, 8192)
    assert mixer.A_log.shape == (128,)


def head_outputs_are_before_the_gate(model: Any) -> None:
    mixer = model.layers[1].linear_attn
    gate, outputs, premix = mixed(model, 1, "attention_gate attention_head_outputs attention_premix")
    torch.testing.assert_close(mixer._module.norm(outputs.flatten(2), gate), premix)
    assert not torch.allclose(outputs.flatten(2), premix, atol=1e-2)


def the_norm_runs_over_groups(model: Any) -> None:
    native, per_head = model.layers[1].linear_attn._module, model.config.head_dim
    per_group = native.intermediate_size // model.config.n_groups
    x = torch.randn(1, 3, native.intermediate_size, generator=torch.Generator().manual_seed(0))
    louder = x.clone()
    louder[..., :per_head] *= 5
    before, after = native.norm(x), native.norm(louder)
    assert not torch.allclose(before[..., per_head:per_group], after[..., per_head:per_group], atol=1e-2)
    assert torch.equal(before[..., per_group:], after[..., per_group:])


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("mamba", "bamba", "zamba2", "nemotron_h", "granitemoehybrid", "falcon_h1")
    assert [families.find(name).name for name in kin] == list(kin)
    decays = tiny("mamba", "eager").collect(IDS, "layers.1.linear_attn.decays")
    assert next(iter(decays.values())).ndim == 4


def logits_are_cast_after_the_head(model: Any) -> None:
    half = nnatlas.load("tiny:mamba2", dtype=torch.bfloat16)
    (given,) = half.collect(IDS, ["logits"]).values()
    assert given.dtype == torch.float32
    assert torch.equal(given, given.bfloat16().float())
