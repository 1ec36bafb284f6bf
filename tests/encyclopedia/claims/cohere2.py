"""What the notes on Cohere 2 claim."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import (
    IDS,
    before_and_after_rotary,
    built,
    default,
    gated_mlp,
    interior_on_every_load,
    of_block,
    shapes,
    tiny,
    turn,
)
from tests.families.seed_pages import rotated_halves, rotated_pairs, split_heads
from torch.nn import functional as F
from transformers import Cohere2Config

import nnatlas
from nnatlas import families
from nnatlas.check.images import Images


def kinds(model: Any) -> tuple[int, int]:
    """The first sliding block and the first full one."""
    return tuple(model.config.layer_types.index(kind) for kind in ("sliding_attention", "full_attention"))


def block_equations(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        entering, normed = block.layer_input.clone(), block.attention_norm_output.clone()
        read, attention = block.self_attn.input.clone(), block.self_attn.attention_output.clone()
        read_by_mlp, mlp, leaving = block.mlp_input.clone(), block.mlp.mlp_output.clone(), block.layer_output.clone()
    torch.testing.assert_close(block.input_layernorm._module(entering), normed)
    assert torch.equal(read, normed)
    assert torch.equal(read_by_mlp, normed)
    assert torch.equal(entering + attention + mlp, leaving)
    gated_mlp(model)


def no_stream_between(model: Any) -> None:
    assert "parallel block" in model.support()["block.layer_mid"]
    attention, mlp = of_block(model, 1, "attention_norm_output mlp_norm_output")
    assert torch.equal(attention, mlp)


def a_layer_norm_without_bias(model: Any) -> None:
    norm = model.layers[1].input_layernorm._module
    x = torch.randn(2, 5, model.hidden_size, generator=torch.Generator().manual_seed(0)) + 3
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    torch.testing.assert_close(norm(x), F.layer_norm(x, x.shape[-1:], norm.weight, eps=norm.variance_epsilon))
    again = type(norm)(64).bfloat16()
    wide = F.layer_norm(x.bfloat16().float(), x.shape[-1:], eps=again.variance_epsilon)
    assert torch.equal(again(x.bfloat16()), wide.bfloat16())


def one_tensor_for_two_sublayers(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        block.self_attn.input[:] = 0
        after_writing = block.mlp_input.clone()
    with model.trace(IDS):
        block.input_layernorm.output = torch.ones_like(block.layer_input)
        by_attention, by_mlp = block.self_attn.input.clone(), block.mlp_input.clone()
    assert after_writing.abs().max() == 0
    assert (by_attention == 1).all()
    assert (by_mlp == 1).all()


def contributions_are_the_last_projections(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        projected, attention = block.self_attn.o_proj.output.clone(), block.self_attn.attention_output.clone()
        narrowed, mlp = block.mlp.down_proj.output.clone(), block.mlp.mlp_output.clone()
    assert torch.equal(projected, attention)
    assert torch.equal(narrowed, mlp)


def the_sum_in_its_own_order(model: Any) -> None:
    exact, other = [], []
    for block in range(model.num_layers):
        names = "layer_input self_attn.attention_output mlp.mlp_output layer_output"
        entering, attention, mlp, leaving = of_block(model, block, names)
        exact.append(torch.equal(entering + attention + mlp, leaving))
        other.append(torch.equal(mlp + attention + entering, leaving))
        torch.testing.assert_close(mlp + attention + entering, leaving)
    assert all(exact)
    assert not all(other)


def the_mlp_does_not_see_the_attention(model: Any) -> None:
    block = model.layers[1]
    with model.trace(IDS):
        before, leaving = block.mlp_input.clone(), block.layer_output.clone()
    with model.trace(IDS):
        block.self_attn.attention_output = 0.0
        after, without = block.mlp_input.clone(), block.layer_output.clone()
    assert torch.equal(before, after)
    assert not torch.allclose(leaving, without, atol=1e-3)


def every_fourth_block_is_full(model: Any) -> None:
    types = Cohere2Config(num_hidden_layers=32).layer_types
    assert [number for number, kind in enumerate(types) if kind == "full_attention"] == list(range(3, 32, 4))
    assert Cohere2Config().sliding_window == 4096


def the_window_tells_the_kinds_apart(model: Any) -> None:
    window = model.config.sliding_window
    assert [model.layers[number].self_attn._module.sliding_window for number in kinds(model)] == [window, None]


def sliding_blocks_turn_neighbours(model: Any) -> None:
    for before, after in before_and_after_rotary(model, kinds(model)[0]):
        cos, sin = turn(model)
        torch.testing.assert_close(rotated_pairs(before, cos, sin), after, rtol=0, atol=1e-5)
        assert (rotated_halves(before, cos, sin) - after).abs().max() > 0.05


def full_blocks_do_not_rotate(model: Any) -> None:
    attention = model.layers[kinds(model)[1]].self_attn
    with model.trace(IDS):
        projected = [attention.q_proj.output.clone(), attention.k_proj.output.clone()]
        entering = [attention.attention_queries.clone(), attention.attention_keys.clone()]
    for one, other in zip(projected, entering, strict=True):
        assert torch.equal(split_heads(one, model.qk_head_dim), other)


def sizes_of_r7b(model: Any) -> None:
    fields = dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32)
    made = built("cohere2", **fields, num_key_value_heads=8, logit_scale=0.25)
    block = made.model.layers[0]
    wanted = [(4096, 4096), (1024, 4096), (1024, 4096)]
    assert shapes(block.self_attn, ("q_proj.weight", "k_proj.weight", "v_proj.weight")) == wanted
    assert (block.self_attn.head_dim, block.self_attn.num_key_value_groups) == (128, 4)
    assert made.lm_head.weight.shape == (256000, 4096)


def interior_on_every_block(model: Any) -> None:
    interior_on_every_load(model)
    names = "self_attn.attention_queries self_attn.attention_scores self_attn.attention_probabilities"
    for block in range(model.num_layers):
        queries, scores, pattern = of_block(model, block, names)
        torch.testing.assert_close(scores.softmax(-1), pattern)
        assert queries.shape[1] == model.num_heads


def logits_are_scaled(model: Any) -> None:
    raw, given = model.collect(IDS, ["lm_head_output", "logits"]).values()
    assert model.config.logit_scale != 1
    assert torch.equal(raw * model.config.logit_scale, given)


def default_special_ids(model: Any) -> None:
    config = default(model)
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id, config.vocab_size) == (0, 5, 255001, 256000)


def padding_row(model: Any) -> None:
    fresh = type(model._module)(model.config).model.embed_tokens
    assert fresh.padding_idx == model.config.pad_token_id
    assert fresh.weight[fresh.padding_idx].abs().max() == 0
    assert fresh.weight[0].abs().max() > 0


def kin_have_rows_of_their_own(model: Any) -> None:
    assert families.find("cohere").name == "cohere"
    assert families.find("cohere2_moe").name == "cohere2_moe"
    older = tiny("cohere", "sdpa")
    for block in range(older.num_layers):
        for before, after in before_and_after_rotary(older, block):
            assert (before - after)[:, :, 1:].abs().max() > 0.05
    assert "parallel block" in older.support()["block.layer_mid"]


@cache
def wrapper(model_type: str = "cohere2_vision") -> Any:
    return nnatlas.load(f"tiny:{model_type}", task="image-text-to-text")


def with_an_image(wrapped: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Ids with an image's tokens in front, where those stand, and the image."""
    images, vision = Images(wrapped._module, wrapped._prepare, film=False), wrapped.config.vision_config
    tokens = (vision.image_size // vision.patch_size // wrapped.config.downsample_factor) ** 2
    ids = torch.cat((IDS.new_full((1, tokens), images.placeholder), IDS), 1)
    return ids, ids[0] == images.placeholder, {"pixel_values": images._noise()[None]}


def wrappers_keep_the_names(model: Any) -> None:
    for model_type in ("cohere2_vision", "aya_vision"):
        wrapped = wrapper(model_type)
        native = wrapped._module
        assert wrapped.layers[0]._module is native.model.language_model.layers[0]
        assert wrapped.embed_tokens._module is native.model.language_model.embed_tokens
        assert wrapped.norm._module is native.model.language_model.norm
        assert wrapped.lm_head._module is native.lm_head


def the_wrapper_does_not_scale(model: Any) -> None:
    assert wrapper().config.text_config.logit_scale != 1
    assert torch.equal(*wrapper().collect(IDS, ["lm_head_output", "logits"]).values())


def image_features_replace_embeddings(model: Any) -> None:
    wrapped = wrapper()
    ids, stands, image = with_an_image(wrapped)
    with wrapped.trace(ids, **image):
        embedded = wrapped.token_embeddings.clone()
        projected = wrapped.projector.output.clone()
        entering = wrapped.layers[0].layer_input.clone()
    assert torch.equal(embedded[:, ~stands], entering[:, ~stands])
    assert torch.equal(projected.flatten(0, -2), entering[0, stands])
    assert not torch.allclose(embedded[:, stands], entering[:, stands], atol=1e-2)
    assert torch.equal(embedded[0, stands][0], wrapped.embed_tokens._module.weight[ids[0, 0]])


def the_embedding_runs_before_the_tower(model: Any) -> None:
    wrapped = wrapper()
    ids, _, image = with_an_image(wrapped)
    with pytest.raises(nnatlas.AlreadyRan), wrapped.trace(ids, **image):
        wrapped.vision.output
        wrapped.token_embeddings


def the_tower_is_siglip(model: Any) -> None:
    for model_type in ("cohere2_vision", "aya_vision"):
        wrapped = wrapper(model_type)
        assert wrapped.config.vision_config.model_type == "siglip_vision_model"
        assert wrapped.vision._module is wrapped._module.model.vision_tower
        assert wrapped.projector._module is wrapped._module.model.multi_modal_projector


def projected(model_type: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The last tower block's stream, that stream normed, what the projector reads, and what it gives."""
    wrapped = wrapper(model_type)
    ids, _, image = with_an_image(wrapped)
    with wrapped.trace(ids, **image):
        stream = wrapped.vision.layers[-1].layer_output.clone()
        read, given = wrapped.projector.input.clone(), wrapped.projector.output.clone()
    return stream, wrapped.vision._module.post_layernorm(stream), read, given


def two_projectors(model: Any) -> None:
    stream, normed, read, _ = projected("cohere2_vision")
    torch.testing.assert_close(read, normed)
    assert not torch.allclose(read, stream, atol=1e-2)
    stream, normed, read, _ = projected("aya_vision")
    torch.testing.assert_close(read, stream)
    assert not torch.allclose(read, normed, atol=1e-2)
    norms = [hasattr(wrapper(name).projector._module, "layernorm") for name in ("cohere2_vision", "aya_vision")]
    assert norms == [False, True]


def the_projector_shuffles_pixels(model: Any) -> None:
    for model_type in ("cohere2_vision", "aya_vision"):
        stream, _, _, given = projected(model_type)
        factor = wrapper(model_type).config.downsample_factor
        assert factor > 1
        assert given.flatten(0, -2).shape[0] * factor**2 == stream.flatten(0, -2).shape[0]
        native = wrapper(model_type).projector._module
        assert native.linear_1.in_features == stream.shape[-1] * factor**2
