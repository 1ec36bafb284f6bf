"""What the notes on GPT-2 claim."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import IDS, built, default, every_head_has_its_own_keys, of_block, pre_norms, tiny
from torch.nn import functional as F

from nnatlas import families


def block_equations(model: Any) -> None:
    pre_norms(model)
    the_mlp_has_no_gate(model)


def layer_norms(model: Any) -> None:
    norm = model.layers[1].ln_1._module
    x = torch.randn(2, 5, model.hidden_size, generator=torch.Generator().manual_seed(0)) + 3
    torch.testing.assert_close(norm(x), F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps))
    torch.testing.assert_close(norm(x), norm(x + 7), rtol=1e-4, atol=1e-4)


def the_mlp_has_no_gate(model: Any) -> None:
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        read, up = mlp.input.clone(), mlp.c_fc.output.clone()
        activation, neurons, written = mlp.mlp_activation.clone(), mlp.mlp_neurons.clone(), mlp.mlp_output.clone()
    torch.testing.assert_close(mlp.c_fc._module(read), up)
    torch.testing.assert_close(F.gelu(up, approximate="tanh"), activation)
    assert torch.equal(activation, neurons)
    torch.testing.assert_close(mlp.c_proj._module(neurons), written)
    assert neurons.shape[-1] == 4 * model.hidden_size


def weights_are_transposed(model: Any) -> None:
    up = model.layers[1].mlp.c_fc._module
    assert up.weight.shape == (model.hidden_size, 4 * model.hidden_size)
    x = torch.randn(3, model.hidden_size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(up(x), x @ up.weight + up.bias)


def positions_are_added_once(model: Any) -> None:
    embedded, entering = model.collect(IDS, ["token_embeddings", "layers.0.layer_input"]).values()
    positions = model._module.transformer.wpe.weight[: IDS.shape[1]]
    torch.testing.assert_close(embedded + positions, entering)
    assert not torch.allclose(embedded, entering, atol=1e-2)


def nothing_rotates(model: Any) -> None:
    for before, after in (("unrotated_queries", "attention_queries"), ("unrotated_keys", "attention_keys")):
        assert torch.equal(*of_block(model, 1, f"self_attn.{before} self_attn.{after}"))


def positions_end(model: Any) -> None:
    assert default(model).n_positions == 1024
    with pytest.raises(Exception, match="index out of range"), model.trace(IDS, position_ids=IDS + 10_000):
        pass


def padded_rows_keep_their_positions(model: Any) -> None:
    pad = model.tokenizer.pad_token_id
    alone, other = IDS[:, :5], IDS.flip(1)
    padded = torch.cat((torch.full((1, IDS.shape[1] - 5), pad), alone), 1)
    batch = {"input_ids": torch.cat((other, padded)), "attention_mask": torch.ones(2, IDS.shape[1], dtype=torch.long)}
    batch["attention_mask"][1, : IDS.shape[1] - 5] = 0
    with model.trace(batch):
        together = model.logits[1, -5:].clone()
    with model.trace(alone):
        by_itself = model.logits[0].clone()
    torch.testing.assert_close(together, by_itself, rtol=0, atol=1e-4)
    untold = model._module(**batch, position_ids=torch.arange(IDS.shape[1])[None]).logits[1, -5:]
    assert (untold - by_itself).abs().max() > 1e-2


def one_projection_for_three(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.hidden_size
    with model.trace(IDS):
        fused = attention.c_attn.output.clone()
        served = [
            attention.attention_queries.clone(),
            attention.attention_keys.clone(),
            attention.attention_values.clone(),
        ]
    for part, heads in zip(fused.split(width, -1), served, strict=True):
        assert torch.equal(part.unflatten(-1, (model.num_heads, -1)).transpose(1, 2), heads)


def sizes_of_gpt2(model: Any) -> None:
    config = default(model)
    assert (config.n_layer, config.n_head, config.n_embd) == (12, 12, 768)
    for width, heads in ((768, 12), (1024, 16), (1280, 20), (1600, 25)):
        assert built("gpt2", n_embd=width, n_head=heads, n_layer=1).transformer.h[0].attn.head_dim == 64


def scores_can_shrink_with_depth(model: Any) -> None:
    for shrinks in (False, True):
        made = tiny("gpt2", "eager", {"scale_attn_by_inverse_layer_idx": shrinks})
        names = "self_attn.attention_queries self_attn.attention_keys self_attn.attention_scores"
        for block in (0, 2):
            queries, keys, scores = of_block(made, block, names)
            products = queries @ keys.mT * made.qk_head_dim**-0.5 / (block + 1 if shrinks else 1)
            seen = torch.ones(IDS.shape[1], IDS.shape[1]).tril().bool()
            torch.testing.assert_close(scores[..., seen], products[..., seen], rtol=1e-4, atol=1e-5)
    assert default(model).scale_attn_by_inverse_layer_idx is False


def the_mean_never_shows(model: Any) -> None:
    (stream,) = model.collect(IDS, "layers.-1.layer_output").values()
    torch.testing.assert_close(model.project_on_vocab(stream), model.project_on_vocab(stream + 5), rtol=1e-4, atol=1e-4)


def one_special_id(model: Any) -> None:
    config = default(model)
    assert config.bos_token_id == config.eos_token_id == 50256
    assert config.vocab_size == 50257


def what_the_row_covers(model: Any) -> None:
    assert families.find("gpt-sw3").name == families.find("gpt2").name == "gpt2"


def kin_have_rows_of_their_own(model: Any) -> None:
    kin = ("gpt_bigcode", "gpt_neo", "gptj")
    assert [families.find(name).name for name in kin] == list(kin)
    every_head_has_its_own_keys(model)
