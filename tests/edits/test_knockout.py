"""Knockout and skipping: what is cut off is without effect, by causal tests, and nothing else is."""

from __future__ import annotations

import pytest
import torch
from tests.edits.every_edit import ATTENTION, FAMILIES, GREEDY, model_of
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas.edits import knock_out_attention, skip_layers
from nnatlas.errors import InputError, LayoutError, Unavailable

CHANGED = IDS.clone()
CHANGED[0, 1] = 17


def last_logits(model, ids):
    with torch.no_grad():
        return model._module(ids).logits[0, -1]


@pytest.mark.parametrize("family", ATTENTION)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_token_nobody_may_attend_to_no_longer_matters(family, implementation):
    """Cut in every layer from every later query, another token there changes its own place and no other."""
    if family == "apex-1":
        model = model_of(family)
    else:
        try:
            model = tiny(family, implementation)
        except ValueError:
            pytest.skip(f"{family} does not run under {implementation}")
    assert not torch.equal(last_logits(model, IDS), last_logits(model, CHANGED))
    with left_alone(model), knock_out_attention(model, queries=None, keys=1), torch.no_grad():
        first, second = model._module(IDS).logits[0], model._module(CHANGED).logits[0]
    others = [0, 2, 3, 4, 5]
    torch.testing.assert_close(first[others], second[others], atol=1e-4, rtol=0)
    assert not torch.allclose(first[1], second[1], atol=1e-2)


@pytest.mark.parametrize("family", ["llama", "bloom", "gpt_oss"])
def test_one_edge_is_cut_in_one_layer_and_the_rest_of_the_pattern_takes_its_share(family):
    model, name = model_of(family), "layers.1.self_attn.attention_probabilities"
    plain = model.collect(IDS, name)[name]
    with left_alone(model), knock_out_attention(model, queries=4, keys=[1, 2], layers=1, heads=[0, 1]):
        cut = model.collect(IDS, name)[name]
    assert float(plain[0, :2, 4, [1, 2]].min()) > 0 and float(cut[0, :2, 4, [1, 2]].abs().max()) == 0
    left = [0, 3, 4]
    if family != "gpt_oss":  # its sink takes a share of its own
        share = plain[0, :2, 4, left] / plain[0, :2, 4, left].sum(-1, keepdim=True)
        torch.testing.assert_close(cut[0, :2, 4, left], share, atol=1e-6, rtol=1e-5)
    same = torch.ones_like(plain, dtype=torch.bool)
    same[0, :2, 4] = False
    torch.testing.assert_close(cut[same], plain[same], atol=1e-7, rtol=0)


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom", "gpt_oss", "gemma2"])
def test_generated_tokens_are_kept_from_a_key_of_the_cache(family):
    """Under a cache the key lies in the past; also where a sliding window has forgotten some of it."""
    model = tiny(family)
    options = {**GREEDY, "max_new_tokens": 5}
    with left_alone(model), knock_out_attention(model, queries=None, keys=1):
        with model.generate(IDS, **options) as one:
            first = [model.logits[0, -1] for _ in one.steps()]
        with model.generate(CHANGED, **options) as two:
            second = [model.logits[0, -1] for _ in two.steps()]
        with model.generate(IDS, **options, use_cache=False) as three:
            third = [model.logits[0, -1] for _ in three.steps()]
    assert torch.equal(one.output[0, 6:], two.output[0, 6:])
    for a, b, c in zip(first, second, third, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(a, c, atol=1e-4, rtol=1e-3)


def test_positions_are_each_rows_own_under_padding():
    """Row 0 is padded by two: its key 1 is at column 3."""
    model, name = model_of("llama"), "layers.1.self_attn.attention_probabilities"
    batch = {"input_ids": torch.tensor([[0, 0, 5, 9, 2, 7], [5, 9, 2, 30, 7, 11]]),
             "attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])}  # fmt: skip
    plain = model.collect(batch, name)[name]
    with knock_out_attention(model, queries=-1, keys=1, layers=1):
        cut = model.collect(batch, name)[name]
    changed = (cut - plain).abs().amax(1) > 1e-7
    assert changed.any(-1).nonzero().tolist() == [[0, 5], [1, 5]]
    zeroed = (cut.amax(1) == 0) & (plain.amax(1) > 0)
    assert zeroed.nonzero().tolist() == [[0, 5, 3], [1, 5, 1]]


def test_the_edge_to_itself_is_kept_unless_asked_and_nothing_is_left_without_keys():
    model, name = model_of("llama"), "layers.1.self_attn.attention_probabilities"
    with knock_out_attention(model, queries=None, keys=[0, 3], layers=1):
        cut = model.collect(IDS, name)[name]
    assert bool((cut[0, :, 0, 0] == 1).all()) and float(cut[0, :, 3, 3].min()) > 0
    assert float(cut[0, :, 1:, 0].abs().max()) == 0
    with knock_out_attention(model, queries=3, keys=3, layers=1, own=True):
        cut = model.collect(IDS, name)[name]
    assert float(cut[0, :, 3, 3].abs().max()) == 0
    edit = knock_out_attention(model, queries=None, keys=[0], own=True)
    with left_alone(model), pytest.raises(InputError, match="position 0 of row 0 nothing to attend to"), edit:
        last_logits(model, IDS)


def test_what_has_no_attention_is_refused():
    with pytest.raises(Unavailable, match="see linear_attn"):
        knock_out_attention(model_of("mamba2"), -1, 0, layers=1)
    with pytest.raises(Unavailable):
        knock_out_attention(model_of("mamba2"), -1, 0)
    with pytest.raises(LayoutError, match="head 99 of"):
        knock_out_attention(model_of("llama"), -1, 0, heads=99)


# --- skipping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_what_enters_a_skipped_block_leaves_it(family):
    model = model_of(family)
    with left_alone(model):
        with model.trace(IDS):
            stream = model.layers[1].layer_input.clone()
            model.layers[2].layer_output = stream
            wanted = model.logits
        with skip_layers(model, [1, 2]), model.trace(IDS):
            entered = model.layers[1].layer_input.clone()
            left = model.layers[2].layer_output.clone()
            got = model.logits
    assert torch.equal(entered, stream) and torch.equal(left, stream) and torch.equal(got, wanted)


def test_a_skip_at_some_positions_leaves_the_others():
    model = model_of("gpt2")
    with model.trace(IDS):
        into, out = model.layers[1].layer_input.clone(), model.layers[1].layer_output.clone()
    with skip_layers(model, 1, positions=[2, -1]), model.trace(IDS):
        found = model.layers[1].layer_output
    wanted = out.clone()
    wanted[:, [2, 5]] = into[:, [2, 5]]
    assert torch.equal(found, wanted)
