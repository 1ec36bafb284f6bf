"""What the notes on Qwen3-Next claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    attention_blocks,
    before_and_after_rotary,
    billions,
    built,
    default,
    of_block,
    shapes,
    sparse_block,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves
from torch import Tensor
from torch.nn import functional as F

from nnatlas import families

DELTA = 0


def full(model: Any) -> int:
    return attention_blocks(model)[0]


def unit(x: Tensor) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


def mixed(model: Any, names: str) -> list[Tensor]:
    """Values of the first delta rule from a run that keeps a cache, by name."""
    mixer = model.layers[DELTA].linear_attn
    with model.trace(IDS, use_cache=True):
        return [getattr(mixer, name).clone() for name in names.split()]


def block_equations(model: Any) -> None:
    for number, mixer in ((DELTA, "linear_attn"), (full(model), "self_attn")):
        block = model.layers[number]
        with model.trace(IDS):
            entering, normed = block.layer_input.clone(), block.attention_norm_output.clone()
            mixing = getattr(block, mixer).attention_output.clone()
            middle, read, mlp = block.layer_mid.clone(), block.mlp_input.clone(), block.mlp.mlp_output.clone()
            leaving = block.layer_output.clone()
        torch.testing.assert_close(block._module.input_layernorm(entering), normed)
        torch.testing.assert_close(entering + mixing, middle)
        torch.testing.assert_close(block._module.post_attention_layernorm(middle), read)
        torch.testing.assert_close(middle + mlp, leaving)


def two_kinds_of_mixer(model: Any) -> None:
    kinds = ["self_attn" if number in attention_blocks(model) else "linear_attn" for number in range(4)]
    assert kinds == ["linear_attn"] * 3 + ["self_attn"]
    support = model.support()
    assert "see linear_attn" in support["self_attn.attention_queries"]
    assert "see self_attn" in support["linear_attn.states"]


def delta_equations(model: Any) -> None:
    native, config = model.layers[DELTA].linear_attn._module, model.config
    (read,) = of_block(model, DELTA, "attention_norm_output")
    names = "attention_queries attention_keys attention_values betas decays attention_gate attention_head_outputs attention_output"
    with model.trace(IDS, use_cache=True):
        mixer = model.layers[DELTA].linear_attn
        convolved = mixer.conv_output.clone()
    found = model.collect(IDS, [f"layers.{DELTA}.linear_attn.{name}" for name in names.split()])
    queries, keys, values, betas, decays, gate, outputs, added = (one.clone() for one in found.values())
    q, k, v, z, b, a = native.fix_query_key_value_ordering(native.in_proj_qkvz(read), native.in_proj_ba(read))
    inner = torch.cat([one.flatten(2) for one in (q, k, v)], -1)
    torch.testing.assert_close(F.silu(native.conv1d(inner.mT)[..., : IDS.shape[1]]).mT, convolved)
    sizes = [q.flatten(2).shape[-1], k.flatten(2).shape[-1], v.flatten(2).shape[-1]]
    for part, served in zip(convolved.split(sizes, -1), (queries, keys, values), strict=True):
        torch.testing.assert_close(part, served.flatten(2))
    torch.testing.assert_close(b.sigmoid(), betas)
    torch.testing.assert_close(torch.exp(-native.A_log.exp() * F.softplus(a + native.dt_bias)), decays)
    torch.testing.assert_close(z, gate)
    repeat = config.linear_num_value_heads // config.linear_num_key_heads
    keys, queries = unit(keys).repeat_interleave(repeat, 2), unit(queries).repeat_interleave(repeat, 2)
    state = torch.zeros(1, config.linear_num_value_heads, config.linear_key_head_dim, config.linear_value_head_dim)
    for token in range(IDS.shape[1]):
        state = decays[:, token, :, None, None] * state
        held = (state * keys[:, token, ..., None]).sum(-2)
        difference = betas[:, token, :, None] * (values[:, token] - held)
        state = state + keys[:, token, ..., None] * difference[..., None, :]
        read_out = (state * queries[:, token, ..., None]).sum(-2) / config.linear_key_head_dim**0.5
        torch.testing.assert_close(read_out, outputs[:, token], rtol=1e-3, atol=1e-4)
    normed = (
        outputs * (outputs.square().mean(-1, keepdim=True) + native.norm.variance_epsilon).rsqrt() * native.norm.weight
    )
    torch.testing.assert_close(native.out_proj((normed * F.silu(gate)).flatten(2)), added, rtol=1e-3, atol=1e-4)


def attention_equations(model: Any) -> None:
    attention, width = model.layers[full(model)].self_attn, model.qk_head_dim
    native = attention._module
    with model.trace(IDS):
        read = attention.input.clone()
        gate, queries = attention.attention_gate.clone(), attention.unrotated_queries.clone()
    both = native.q_proj(read).unflatten(-1, (-1, 2 * width))
    torch.testing.assert_close(native.q_norm(both[..., :width]).transpose(1, 2), queries)
    torch.testing.assert_close(both[..., width:], gate)
    outputs, added = of_block(model, full(model), "self_attn.attention_head_outputs self_attn.attention_output")
    torch.testing.assert_close(native.o_proj((outputs * gate.sigmoid()).flatten(2)), added)


def two_parts_of_a_mixture(model: Any) -> None:
    block = sparse_block(model)
    native = model.layers[block].mlp._module
    read, routed, shared, written = of_block(
        model, block, "mlp_input mlp.routed_output mlp.shared_expert_output mlp.mlp_output"
    )
    torch.testing.assert_close(routed + shared, written)
    gate = native.shared_expert_gate(read).sigmoid()
    torch.testing.assert_close(gate * native.shared_expert(read), shared, rtol=1e-4, atol=1e-5)


def only_the_difference_is_written(model: Any) -> None:
    keys, values, betas, decays, states = mixed(model, "attention_keys attention_values betas decays states")
    repeat = model.config.linear_num_value_heads // model.config.linear_num_key_heads
    keys = unit(keys).repeat_interleave(repeat, 2)
    decayed = decays[:, 1:, :, None, None] * states[:, :-1]
    held = (decayed * keys[:, 1:, ..., None]).sum(-2)
    difference = betas[:, 1:, :, None] * (values[:, 1:] - held)
    torch.testing.assert_close(
        decayed + keys[:, 1:, ..., None] * difference[..., None, :], states[:, 1:], rtol=1e-3, atol=1e-4
    )


def states_follow_the_rule(model: Any) -> None:
    betas, decays, states, last = mixed(model, "betas decays states state_output")
    torch.testing.assert_close(states[:, -1], last, rtol=1e-3, atol=1e-4)
    assert 0 < betas.min() <= betas.max() < 1
    assert 0 < decays.min() <= decays.max() < 1


def sizes_of_keys_mean_nothing(model: Any) -> None:
    mixer = model.layers[DELTA].linear_attn

    def outputs(name: str) -> Tensor:
        with model.trace(IDS):
            if name:
                getattr(mixer, name)[:] *= 4
            return mixer.attention_head_outputs.clone()

    plain = outputs("")
    torch.testing.assert_close(outputs("attention_keys"), plain, rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(outputs("attention_values"), 4 * plain, rtol=1e-3, atol=1e-4)


def gate_stands_between_heads_and_projection(model: Any) -> None:
    gate, outputs, premix = (
        one.clone()
        for one in of_block(
            model, full(model), "self_attn.attention_gate self_attn.attention_head_outputs self_attn.attention_premix"
        )
    )
    torch.testing.assert_close(outputs * gate.sigmoid(), premix)
    assert not torch.allclose(outputs, premix, atol=1e-3)


def a_closed_gate_silences_a_head(model: Any) -> None:
    attention = model.layers[full(model)].self_attn
    with model.trace(IDS):
        attention.attention_gate[:, :, 1] = -100.0
        parts = attention.attention_head_contributions.clone()
    assert parts[:, :, 1].abs().max() == 0
    assert parts[:, :, 0].abs().max() > 1e-4


def a_quarter_is_turned(model: Any) -> None:
    config = default(model)
    assert int(config.head_dim * config.rope_parameters["partial_rotary_factor"]) == 64
    assert config.head_dim == 256
    width = int(model.qk_head_dim * model.config.rope_parameters["partial_rotary_factor"])
    for before, after in before_and_after_rotary(model, full(model)):
        assert torch.equal(before[..., width:], after[..., width:])
        turned = rotated_halves(before[..., :width], *turn(model, width=width))
        torch.testing.assert_close(turned, after[..., :width], rtol=0, atol=1e-5)


def short_convolution_by_default(model: Any) -> None:
    assert default(model).linear_conv_kernel_dim == 4
    native = model.layers[DELTA].linear_attn._module
    assert native.conv1d.kernel_size == (model.config.linear_conv_kernel_dim,)
    assert not any("rotary" in name for name, _ in native.named_modules())


def default_sizes(model: Any) -> None:
    config = default(model)
    with_attention = [number for number, kind in enumerate(config.layer_types) if kind == "full_attention"]
    assert with_attention == list(range(3, 48, 4))
    assert (config.linear_num_key_heads, config.linear_num_value_heads) == (16, 32)
    attention = built("qwen3_next", num_hidden_layers=4).model.layers[3].self_attn
    assert shapes(attention, ("q_proj.weight", "k_proj.weight")) == [(2 * 16 * 256, 2048), (2 * 256, 2048)]


def parameters_of_80b(model: Any) -> None:
    config = default(model)
    assert round(billions(built("qwen3_next")), 1) == 79.7
    assert (config.num_experts_per_tok, config.num_experts) == (10, 512)


def what_the_row_covers(model: Any) -> None:
    covered = "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text minicpmv4_6".split()
    assert {families.find(name).name for name in covered} == {"qwen3_next"}
    later = tiny("qwen3_5_text", "sdpa").layers[DELTA].linear_attn._module
    assert {"in_proj_qkv", "in_proj_z"} <= {name for name, _ in later.named_children()}


def kin_have_rows_of_their_own(model: Any) -> None:
    assert [families.find(name).name for name in ("olmo_hybrid", "kimi_linear")] == ["olmo_hybrid", "kimi_linear"]
