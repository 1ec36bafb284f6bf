"""What the notes on Gemma 2 claim."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import (
    IDS,
    attention_blocks,
    built,
    default,
    gated_mlp,
    of_block,
    sandwich_norms,
    shapes,
    tiny,
)
from torch.nn import functional as F

import nnatlas
from nnatlas import families


def block_equations(model: Any) -> None:
    sandwich_norms(model)
    gated_mlp(model)


def gelu_by_tanh(model: Any) -> None:
    x = torch.linspace(-3, 3, 31)
    torch.testing.assert_close(model.layers[1].mlp.act_fn._module(x), F.gelu(x, approximate="tanh"))
    assert (F.gelu(x) - F.gelu(x, approximate="tanh")).abs().max() > 1e-4
    assert default(model).hidden_activation == "gelu_pytorch_tanh"


def module_outputs_do_not_sum(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        entering, attention = block.layer_input.clone(), block.self_attn.output[0].clone()
        mlp, leaving = block.mlp.output.clone(), block.layer_output.clone()
    assert (entering + attention + mlp - leaving).norm() > 0.1 * (leaving - entering).norm()


def scaled_module_outputs_are_normed_away(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        before = block.mlp.mlp_output.clone()
    with model.trace(IDS):
        block.mlp.output[:] *= 2
        after = block.mlp.mlp_output.clone()
    with model.trace(IDS):
        leaving = block.layer_output.clone()
    with model.trace(IDS):
        block.mlp.mlp_output[:] *= 2
        moved = block.layer_output.clone()
    torch.testing.assert_close(before, after, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(moved, leaving + before)


def every_second_block_slides(model: Any) -> None:
    types = default(model).layer_types
    assert types == ["sliding_attention", "full_attention"] * 13
    assert default(model).sliding_window == 4096


def products(model: Any, block: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scaled products of queries and keys, the scores, and which of them the mask leaves."""
    queries, keys, scores = of_block(
        model, block, "self_attn.attention_queries self_attn.attention_keys self_attn.attention_scores"
    )
    keys = keys.repeat_interleave(model.num_heads // model.num_kv_heads, 1)
    visible = torch.ones(IDS.shape[1], IDS.shape[1]).tril().bool()
    return queries @ keys.mT * model.config.query_pre_attn_scalar**-0.5, scores, visible


def capped_scores(model: Any) -> None:
    cap, block = model.config.attn_logit_softcapping, model.config.layer_types.index("full_attention")
    raw, scores, visible = products(model, block)
    torch.testing.assert_close((cap * torch.tanh(raw / cap))[..., visible], scores[..., visible])
    assert not torch.allclose(raw[..., visible], scores[..., visible], atol=1e-4)
    assert default(model).attn_logit_softcapping == 50


def no_score_beyond_the_cap(model: Any) -> None:
    block = model.config.layer_types.index("full_attention")
    attention = model.layers[block].self_attn
    visible = torch.ones(IDS.shape[1], IDS.shape[1]).tril().bool()
    with model.trace(IDS):
        attention.attention_queries[:] *= 1000
        scores = attention.attention_scores.clone()
    assert scores[..., visible].abs().max() <= model.config.attn_logit_softcapping
    assert scores[..., ~visible].max() < -1e30


def eager_by_default(model: Any) -> None:
    assert model.config._attn_implementation == "eager"
    with pytest.raises((ValueError, nnatlas.AtlasError), match=r"(?i)sdpa|scaled_dot_product"):
        nnatlas.load("tiny:gemma2", attn_implementation="sdpa")


def scale_is_a_field(model: Any) -> None:
    assert model.config.query_pre_attn_scalar != model.qk_head_dim
    capped_scores(model)


def sizes_of_2b(model: Any) -> None:
    block = built("gemma2", num_hidden_layers=1).model.layers[0].self_attn
    wanted = [(8 * 256, 2304), (4 * 256, 2304), (2304, 2048)]
    assert shapes(block, ("q_proj.weight", "k_proj.weight", "o_proj.weight")) == wanted


def the_cap_flattens(model: Any) -> None:
    assert default(model).final_logit_softcapping == 30
    raw = torch.tensor([0.0, 90.0], requires_grad=True)
    (30 * torch.tanh(raw / 30)).sum().backward()
    assert raw.grad[0] == 1
    assert raw.grad[1] < 0.01


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("gemma", "gemma3_text", "paligemma", "vaultgemma")
    assert [families.find(name).name for name in kin] == list(kin)
    first = tiny("gemma", "sdpa").layers[attention_blocks(model)[0]]._module
    assert [name for name, _ in first.named_children() if "norm" in name] == [
        "input_layernorm",
        "post_attention_layernorm",
    ]
