"""What the notes on EXAONE 4.0 claim."""

from __future__ import annotations

from typing import Any

import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    built,
    gated_mlp,
    of_block,
    post_norms,
    root_mean_square,
    rotary_of_halves,
    shapes,
    tiny,
)
from torch import Tensor
from transformers import Exaone4Config

import nnatlas
from nnatlas import families

SLIDING, FULL = 1, 3  # three sliding blocks to one full one


def relative(before: Tensor, after: Tensor) -> float:
    return ((after - before).norm() / before.norm()).item()


def block_equations(model: Any) -> None:
    post_norms(model)
    gated_mlp(model)


def contributions_are_the_norms_outputs(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        normed, attention = block.post_attention_layernorm.output.clone(), block.self_attn.attention_output.clone()
        returned, normed_mlp = block.mlp.output.clone(), block.post_feedforward_layernorm.output.clone()
        mlp = block.mlp.mlp_output.clone()
    assert torch.equal(normed, attention)
    assert torch.equal(normed_mlp, mlp)
    assert relative(returned, mlp) > 0.1


def the_sum_is_exact_in_bfloat16(model: Any) -> None:
    half = tiny("exaone4", "sdpa")
    half._module.bfloat16()
    for one, dtype in ((model, torch.float32), (half, torch.bfloat16)):
        names = "layer_input self_attn.attention_output mlp.mlp_output layer_output"
        entering, attention, mlp, leaving = of_block(one, 1, names)
        assert leaving.dtype == dtype
        assert torch.equal(entering + attention + mlp, leaving)


def sublayers_read_the_raw_stream(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        entering, read = block.layer_input.clone(), block.self_attn.input.clone()
        attention, middle = block.self_attn.attention_output.clone(), block.layer_mid.clone()
        read_by_mlp = block.mlp_input.clone()
    assert torch.equal(entering, read)
    assert torch.equal(middle, read_by_mlp)
    assert torch.equal(entering + attention, middle)


def doubled_input(model: Any, part: str, value: str) -> float:
    """How much a contribution changes when what its sublayer reads is doubled."""
    host = getattr(model.layers[1], part)
    with model.trace(IDS):
        before = getattr(host, value).clone()
    with model.trace(IDS):
        host.input[:] *= 2
        after = getattr(host, value).clone()
    return relative(before, after)


def the_attention_reads_only_a_direction(model: Any) -> None:
    assert doubled_input(model, "self_attn", "attention_output") < 1e-3
    assert doubled_input(model, "mlp", "mlp_output") > 0.05
    exact = tiny("exaone4", "eager")
    for module in exact._module.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 0.0
    assert doubled_input(exact, "self_attn", "attention_output") < 1e-6


def halving_the_contribution(model: Any) -> None:
    for block in (model.layers[0], model.layers[-1]):
        with model.trace(IDS):
            middle, added = block.layer_mid.clone(), block.mlp.mlp_output.clone()
        with model.trace(IDS):
            block.mlp.mlp_output[:] *= 0.5
            leaving = block.layer_output.clone()
        torch.testing.assert_close(leaving, middle + 0.5 * added)


def small_outputs_escape_the_norm(model: Any) -> None:
    norm = model.layers[1].mlp_post_norm._module
    written = torch.randn(1, 4, model.hidden_size, generator=torch.Generator().manual_seed(0))
    root = norm.variance_epsilon**0.5
    assert relative(norm(written), norm(written / 2)) < 1e-3
    assert abs(relative(norm(0.01 * root * written), norm(0.005 * root * written)) - 0.5) < 0.01


def each_head_keeps_to_itself(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.qk_head_dim
    with model.trace(IDS):
        before = attention.attention_queries.clone()
    with model.trace(IDS):
        attention.q_proj.output[..., :width] *= 3
        tripled = attention.attention_queries.clone()
    with model.trace(IDS):
        projected = attention.q_proj.output
        projected[..., :width] += projected[..., width : 2 * width].clone()
        mixed = attention.attention_queries.clone()
    assert relative(before[:, 0], tripled[:, 0]) < 1e-4
    assert relative(before[:, 0], mixed[:, 0]) > 0.1
    assert torch.equal(before[:, 1:], tripled[:, 1:])
    assert torch.equal(before[:, 1:], mixed[:, 1:])


def without_queries_a_head_is_uniform(model: Any) -> None:
    attention, length = model.layers[FULL].self_attn, IDS.shape[1]
    with model.trace(IDS):
        attention.attention_queries[:, 0] = 0
        pattern = attention.attention_probabilities.clone()
    uniform = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    torch.testing.assert_close(pattern[0, 0], uniform)
    assert not torch.allclose(pattern[0, 1], uniform, atol=1e-2)


def full_blocks_do_not_rotate(model: Any) -> None:
    for normed, entering in before_and_after_rotary(model, FULL):
        assert torch.equal(normed, entering)
    for normed, entering in before_and_after_rotary(model, SLIDING):
        assert (normed - entering)[:, :, 1:].abs().max() > 0.05


def without_a_window_every_block_rotates(model: Any) -> None:
    rotary_of_halves(tiny("exaone4", "sdpa", {"sliding_window": None, "layer_types": ["full_attention"] * 4}))


def layer_types_of_32b(model: Any) -> None:
    config = Exaone4Config(num_hidden_layers=64, sliding_window=4096, sliding_window_pattern=4)
    full = [number for number, kind in enumerate(config.layer_types) if kind == "full_attention"]
    assert full == list(range(3, 64, 4))
    assert len(full) == 16


def is_sliding_tells_the_kinds_apart(model: Any) -> None:
    modules = [block.self_attn._module for block in model.layers]
    assert [one.is_sliding for one in modules] == [kind == "sliding_attention" for kind in model.config.layer_types]
    assert {one.sliding_window for one in modules} == {model.config.sliding_window}


def sizes_of_1_2b(model: Any) -> None:
    made = built(
        "exaone4", hidden_size=2048, intermediate_size=4096, num_hidden_layers=30, num_key_value_heads=8, head_dim=64,
        sliding_window=None, layer_types=["full_attention"] * 30,
    )  # fmt: skip
    block = made.model.layers[0]
    wanted = [(2048, 2048), (512, 2048), (64,), (2048, 2048)]
    assert shapes(block.self_attn, ("q_proj.weight", "k_proj.weight", "k_norm.weight", "o_proj.weight")) == wanted
    assert (len(made.model.layers), block.self_attn.num_key_value_groups) == (30, 4)


def the_final_gain_is_the_weight(model: Any) -> None:
    norm = model.norm._module
    x = torch.randn(2, 3, model.hidden_size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(norm(x), root_mean_square(x, norm.variance_epsilon) * norm.weight)


def exaone_4_5_is_bound_by_this_row(model: Any) -> None:
    assert families.find("exaone4_5").name == "exaone4"
    wrapped = nnatlas.load("tiny:exaone4_5", task="image-text-to-text")
    assert wrapped.layers[0]._module is wrapped._module.model.language_model.layers[0]
    assert wrapped.support()["self_attn.attention_output"] is None
    assert wrapped.vision._module is wrapped._module.model.visual


def kin_have_rows_of_their_own(model: Any) -> None:
    assert families.find("exaone").name == "exaone"
    assert families.find("exaone_moe").name == "exaone_moe"
    kin = tiny("exaone", "sdpa")
    assert not hasattr(kin.layers[0].self_attn._module, "q_norm")
    assert kin.support()["block.attention_norm_output"] is None
