"""What the notes on GPT-NeoX claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    default,
    of_block,
    pre_norms,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves

from nnatlas import families


def block_equations(model: Any) -> None:
    two_norms_on_one_stream(model)
    the_mlp_has_no_gate(model)


def two_norms_on_one_stream(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        entering, read = block.layer_input.clone(), block.self_attn.input.clone()
        attention = block.self_attn.attention_output.clone()
        read_by_mlp, mlp, leaving = block.mlp_input.clone(), block.mlp.mlp_output.clone(), block.layer_output.clone()
    native = block._module
    torch.testing.assert_close(native.input_layernorm(entering), read)
    torch.testing.assert_close(native.post_attention_layernorm(entering), read_by_mlp)
    torch.testing.assert_close(entering + attention + mlp, leaving)


def no_stream_between(model: Any) -> None:
    assert "parallel block" in model.support()["block.layer_mid"]


def one_after_the_other_by_a_switch(model: Any) -> None:
    assert default(model).use_parallel_residual is True
    serial = tiny("gpt_neox", "sdpa", {"use_parallel_residual": False})
    assert serial.support()["block.layer_mid"] is None
    pre_norms(serial)


def the_mlp_has_no_gate(model: Any) -> None:
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        read, activation, neurons = mlp.input.clone(), mlp.mlp_activation.clone(), mlp.mlp_neurons.clone()
        written = mlp.mlp_output.clone()
    torch.testing.assert_close(torch.nn.functional.gelu(mlp.dense_h_to_4h._module(read)), activation)
    assert torch.equal(activation, neurons)
    torch.testing.assert_close(mlp.dense_4h_to_h._module(neurons), written)
    assert isinstance(model.layers[1].input_layernorm._module, torch.nn.LayerNorm)
    assert model.layers[1].input_layernorm._module.bias is not None


def the_mlp_does_not_see_the_attention(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        before = block.mlp_input.clone()
    with model.trace(IDS):
        block.self_attn.attention_output = 0.0
        after = block.mlp_input.clone()
    assert torch.equal(before, after)


def the_sum_in_its_own_order(model: Any) -> None:
    exact, other = [], []
    for block in range(model.num_layers):
        names = "layer_input self_attn.attention_output mlp.mlp_output layer_output"
        entering, attention, mlp, leaving = of_block(model, block, names)
        exact.append(torch.equal(mlp + attention + entering, leaving))
        other.append(torch.equal(entering + attention + mlp, leaving))
    assert all(exact)
    assert not all(other)


def a_quarter_is_turned(model: Any) -> None:
    assert default(model).rope_parameters["partial_rotary_factor"] == 0.25
    width = int(model.qk_head_dim * model.config.rope_parameters["partial_rotary_factor"])
    assert 0 < width < model.qk_head_dim
    for before, after in before_and_after_rotary(model, 1):
        assert torch.equal(before[..., width:], after[..., width:])
        turned = rotated_halves(before[..., :width], *turn(model, width=width))
        torch.testing.assert_close(turned, after[..., :width], rtol=0, atol=1e-5)
        assert (before - after)[:, :, 1:, :width].abs().max() > 0.05


def default_rotary(model: Any) -> None:
    assert default(model).rope_parameters["rope_theta"] == 10_000
    assert default(model).max_position_embeddings == 2048


def fused_head_by_head(model: Any) -> None:
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        fused = attention.query_key_value.output.clone()
        queries, keys = attention.unrotated_queries.clone(), attention.unrotated_keys.clone()
        values = attention.attention_values.clone()
    by_head = fused.unflatten(-1, (model.num_heads, 3, model.head_dim)).permute(3, 0, 2, 1, 4)
    for part, served in zip(by_head, (queries, keys, values), strict=True):
        assert torch.equal(part, served)
    assert not torch.equal(
        fused[..., : model.hidden_size].unflatten(-1, (model.num_heads, -1)).transpose(1, 2), queries
    )


def the_head_by_its_name(model: Any) -> None:
    assert model.lm_head._module is model._module.get_output_embeddings()
    assert "embed_out" in families.find("gpt_neox").cells["lm_head"]


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("gpt_neox_japanese", "stablelm", "gptj")
    assert [families.find(name).name for name in kin] == list(kin)
