"""Packed towers: what their attention holds of several images, or windows, of different sizes, and edits of any of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.vision.wrappers import wrapper
from torch import Tensor
from torch.nn import functional as F

from nnatlas.check.vision.sighted import picture
from nnatlas.errors import AlreadyRan, ReadOnly
from nnatlas.model import load

PROMPT = "What is it?"


def sized(model: Any, rows: int, columns: int, seed: int) -> Any:
    """Noise so many patches high and wide, after the small processor."""
    side = model.vision.patch_size
    return picture(seed).resize((columns * side, rows * side))


def inside(model: Any, pictures: list[Any], block: int = 0) -> SimpleNamespace:
    attention = model.vision.layers[block].self_attn
    with torch.no_grad(), model.trace(PROMPT, images=pictures):
        return SimpleNamespace(
            groups=attention.attention_groups.clone(),
            queries=attention.attention_queries.clone(),
            keys=attention.attention_keys.clone(),
            values=attention.attention_values.clone(),
            scores=attention.attention_scores.clone(),
            pattern=attention.attention_probabilities.clone(),
            outputs=attention.attention_head_outputs.clone(),
            features=model.vision.image_features.clone(),
        )


@pytest.mark.parametrize("model_type", ["qwen2_vl", "glm4v", "minimax_m3_vl", "paddleocr_vl"])
def test_two_images_of_different_sizes_are_two_groups(model_type: str) -> None:
    model = wrapper(model_type)
    small, wide = sized(model, 4, 4, 0), sized(model, 4, 8, 1)
    found, alone = inside(model, [small, wide]), [inside(model, [one]) for one in (small, wide)]
    assert found.groups.tolist() == [0] * 16 + [1] * 32
    assert found.queries.shape[:1] + found.queries.shape[2:3] == (1, 48)
    heads = model.vision.num_heads
    assert found.pattern.shape == found.scores.shape == (2, heads, 32, 32)
    assert torch.allclose(found.pattern[0, :, :16, :16], alone[0].pattern[0], atol=1e-6)
    assert torch.allclose(found.pattern[1], alone[1].pattern[0], atol=1e-6)
    assert not found.pattern[0, :, 16:].any() and not found.pattern[0, :, :, 16:].any()
    assert (found.scores[0, :, 16:] < -1e30).all() and (found.scores[0, :, :, 16:] < -1e30).all()
    assert torch.allclose(found.queries, torch.cat([one.queries for one in alone], 2), atol=1e-6)
    assert torch.allclose(found.outputs, torch.cat([one.outputs for one in alone], 1), atol=1e-6)
    assert torch.allclose(found.features, torch.cat([one.features for one in alone]), atol=1e-5)
    for image in (0, 1):  # what each row says is softmax(q k), and mixes the values of its own patches
        mine = found.groups == image
        query, key, value = (one[0, :, mine] for one in (found.queries, found.keys, found.values))
        scores = query @ key.mT * query.shape[-1] ** -0.5
        pattern = found.pattern[image, :, : mine.sum(), : mine.sum()]
        assert torch.allclose(scores.softmax(-1), pattern, atol=1e-5)
        assert torch.allclose((pattern @ value).transpose(0, 1), found.outputs[0, mine], atol=1e-5)


def test_windows_are_groups_where_the_block_has_windows_and_images_where_it_has_none() -> None:
    model = wrapper("qwen2_5_vl")
    windowed, full = (inside(model, [sized(model, 4, 4, 0), sized(model, 4, 12, 1)], block) for block in (0, 1))
    assert full.groups.bincount().tolist() == [16, 48]
    assert windowed.groups.bincount().tolist() == [4] * 16  # windows of two by two patches here
    assert windowed.pattern.shape[0] == 16 and full.pattern.shape == (2, model.vision.num_heads, 48, 48)
    assert torch.allclose(windowed.pattern.sum(-1), torch.ones(()))


@pytest.mark.parametrize("name", ["attention_scores", "attention_probabilities"])
def test_an_edit_of_one_images_row_reaches_that_image_alone(name: str) -> None:
    model = wrapper("qwen2_vl")
    pictures = [sized(model, 4, 4, 0), sized(model, 4, 8, 1)]
    plain = inside(model, pictures).features
    with torch.no_grad(), model.trace(PROMPT, images=pictures):
        value = getattr(model.vision.layers[0].self_attn, name)
        value[1] = value[1].roll(1, -1)
        features = model.vision.image_features.clone()
    assert torch.allclose(features[:4], plain[:4], atol=1e-6)
    assert (features[4:] - plain[4:]).abs().max() > 1e-3
    with torch.no_grad(), model.trace(PROMPT, images=pictures):
        setattr(model.vision.layers[0].self_attn, name, value)
        assert torch.allclose(model.vision.image_features, features, atol=1e-6)


def test_an_edit_of_the_second_images_queries_reaches_it_under_the_configured_attention() -> None:
    model = wrapper("qwen2_vl")
    pictures = [sized(model, 4, 4, 0), sized(model, 4, 8, 1)]
    plain = inside(model, pictures).features
    with torch.no_grad(), model.trace(PROMPT, images=pictures):
        attention = model.vision.layers[1].self_attn
        second = attention.attention_groups == 1
        attention.attention_queries[:, :, second] = 0
        attention.attention_head_outputs[:, second] *= 2
        features = model.vision.image_features.clone()
    assert torch.allclose(features[:4], plain[:4], atol=1e-6)
    assert (features[4:] - plain[4:]).abs().max() > 1e-3


def test_knocking_out_keys_of_each_image_by_its_groups() -> None:
    """The block-diagonal mask of what belongs together, from `attention_groups`, is the one that the pattern has."""
    model = wrapper("qwen2_vl")
    found = inside(model, [sized(model, 4, 8, 0), sized(model, 4, 4, 1), sized(model, 12, 4, 2)])
    together = found.groups[:, None] == found.groups
    scores = found.queries @ found.keys.mT * found.queries.shape[-1] ** -0.5
    whole = scores.masked_fill(~together, -torch.inf).softmax(-1)
    blocks = [torch.block_diag(*(row[head, :n, :n] for row, n in zip(found.pattern, (32, 16, 48), strict=True)))
              for head in range(model.vision.num_heads)]  # fmt: skip
    assert torch.allclose(torch.stack(blocks), whole[0], atol=1e-5)


def test_the_groups_are_read_only_and_past_values_stay_past() -> None:
    model = wrapper("qwen2_vl")
    with model.trace(PROMPT, images=[sized(model, 4, 4, 0)]):
        attention = model.vision.layers[0].self_attn
        with pytest.raises(ReadOnly, match="how the attention was called"):
            attention.attention_groups = 0
        attention.attention_head_outputs
        with pytest.raises(AlreadyRan, match="attention_scores"):
            attention.attention_scores
    assert "attention_groups" not in dir(model.layers[0].self_attn)


def test_gradients_reach_each_images_pattern() -> None:
    model = wrapper("qwen2_vl")
    with model.trace(PROMPT, images=[sized(model, 4, 4, 0), sized(model, 4, 8, 1)]):
        pattern = model.vision.layers[0].self_attn.attention_probabilities.requires_grad_()
        loss = model.logits[0, -1].square().sum()
    (gradient,) = torch.autograd.grad(loss, pattern)
    assert (gradient.abs().amax((1, 2, 3)) > 0).all()
    assert not gradient[0, :, 16:].any()


def test_an_abandoned_run_leaves_nothing_and_the_next_one_works() -> None:
    from nnatlas.interior.attention import _DISPATCHERS

    model, picture = wrapper("qwen2_vl"), sized(wrapper("qwen2_vl"), 4, 4, 0)
    with model.trace(PROMPT, images=[picture]) as run:
        model.vision.layers[0].self_attn.attention_queries
        run.stop()
    assert not any(one.gathered or one.wanted for one in _DISPATCHERS.values())
    assert inside(model, [picture]).pattern.shape[0] == 1


def varlen(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **given: Any) -> Any:
    """What a flash implementation does with all images in one call: attend within the ends that it is told."""
    lengths = given["cu_seq_lens_q"].diff().tolist()
    sides = (side.split(lengths, 2) for side in (query, key, value))
    parts = [F.scaled_dot_product_attention(*own, scale=given["scaling"]) for own in zip(*sides, strict=True)]
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def test_one_flash_call_for_all_images_is_taken_apart_by_the_ends_it_is_told() -> None:
    """No flash kernel runs without a GPU: a stand-in under its name is called just as it would be."""
    import sys

    plain = wrapper("qwen2_vl")
    model = load("tiny:qwen2_vl", task="image-text-to-text")
    interface = sys.modules[type(model._module).__module__].ALL_ATTENTION_FUNCTIONS
    pictures = [sized(model, 4, 4, 0), sized(model, 4, 8, 1)]
    expected = inside(plain, pictures)
    interface["flash_attention_2"] = varlen
    try:
        for block in model.vision.layers:
            block.self_attn._module.config._attn_implementation = "flash_attention_2"
        found = inside(model, pictures)
    finally:
        del interface["flash_attention_2"]
    assert found.groups.tolist() == expected.groups.tolist()
    for name in ("queries", "scores", "pattern", "outputs", "features"):
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-5), name
