"""The attention interior: the same values and edits under any implementation, one block at a time, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nnatlas.model import load

PARTS = ["attention_queries", "attention_keys", "attention_values", "attention_head_outputs"]
STEPS = ["attention_scores", "attention_probabilities"]
TYPES = [
    "llama",
    "gpt2",
    "gpt_neox",
    "gemma2",
    "cohere2",
    "exaone4",
    "qwen3",
    "olmo2",
    "opt",
    "phi",
    "gpt_oss",
    "granite",
]


@pytest.mark.parametrize("model_type", TYPES)
def test_the_equations_of_attention(model_type):
    """probabilities = softmax(scores) and head outputs = probabilities · values, whatever the family's details."""
    model = tiny(model_type)
    attention = model.layers[1].self_attn
    groups = attention.num_heads // attention.num_kv_heads
    with left_alone(model), model.trace(IDS):
        values = attention.attention_values.repeat_interleave(groups, 1)
        scores, pattern, mixed = (getattr(attention, name) for name in (*STEPS, "attention_head_outputs"))
    width = pattern.shape[-1]
    assert torch.allclose(scores.float().softmax(-1)[..., :width], pattern, atol=1e-5)
    assert torch.allclose((pattern @ values).transpose(1, 2), mixed, atol=1e-4)
    assert pattern.triu(1).abs().max() == 0


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "granite", "cohere2"])
def test_sdpa_and_eager_serve_the_same(model_type):
    found = []
    for implementation in ("eager", "sdpa"):
        model = load(f"tiny:{model_type}", attn_implementation=implementation)
        with model.trace(IDS):
            found.append([getattr(model.layers[1].self_attn, name) for name in (*PARTS[:3], *STEPS, PARTS[3])])
            found[-1].append(model.logits)
    for one, other in zip(*found, strict=True):
        visible = one > torch.finfo(one.dtype).min / 2  # how deep a masked score lies is the implementation's own
        assert torch.allclose(one[visible], other[visible], atol=1e-4)


@pytest.mark.parametrize("value", [*PARTS, *STEPS])
def test_edits_change_the_logits_alike_under_both(value):
    changed = []
    for implementation in ("eager", "sdpa"):
        model = tiny("llama", implementation)
        plain = model._module(IDS).logits
        for assign in (False, True):
            with left_alone(model), model.trace(IDS):
                attention = model.layers[1].self_attn
                if assign:
                    setattr(attention, value, getattr(attention, value) * 0.5)
                else:
                    getattr(attention, value).mul_(0.5)
                changed.append(model.logits)
        assert (changed[-1] - plain).abs().max() > 1e-3
    assert all(torch.allclose(changed[0], other, atol=1e-3) for other in changed[1:])


def test_reading_around_the_configured_function_changes_no_bit():
    model = tiny("llama", "sdpa")
    plain = model._module(IDS).logits
    with model.trace(IDS):
        for layer in model.layers:
            layer.self_attn.attention_queries, layer.self_attn.attention_keys, layer.self_attn.attention_head_outputs
        assert torch.equal(model.logits, plain)


def test_a_sink_takes_a_share():
    model = tiny("gpt_oss")
    with model.trace(IDS):
        scores = model.layers[1].self_attn.attention_scores
        pattern = model.layers[1].self_attn.attention_probabilities
    assert scores.shape[-1] == pattern.shape[-1] + 1 == 7
    assert (pattern.sum(-1) < 0.999).all()


def test_padding_is_masked_and_a_cache_widens_the_keys():
    model = tiny("llama", "sdpa")
    with model.trace([[5, 6, 7], IDS[0].tolist()]):
        pattern = model.layers[1].self_attn.attention_probabilities
    assert pattern[0, :, 3:, :3].abs().max() < 1e-6
    assert torch.allclose(pattern[0, :, 3:].sum(-1), torch.ones(4, 3), atol=1e-5)


def test_a_function_that_the_user_registered_stays_in_place():
    calls = []
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def own(module, *args, **kwargs):
        calls.append(module.layer_idx)
        return sdpa(module, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS["sdpa"] = own  # in the interface object itself, as a notebook would
    try:
        model = tiny("llama", "sdpa")
        with left_alone(model), model.trace(IDS):
            model.layers[1].self_attn.attention_queries
            model.layers[2].self_attn.attention_probabilities
        assert calls == [0, 1, 3]
        assert ALL_ATTENTION_FUNCTIONS["sdpa"] is own
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch and transformers compile their masks in older ways
def test_flex_attention_serves_the_interior_too():
    pytest.importorskip("torch.nn.attention.flex_attention")
    try:
        model = load("tiny:llama", attn_implementation="flex_attention")
        plain = model._module(IDS).logits
    except (RuntimeError, ValueError, ImportError) as why:
        pytest.skip(f"flex attention does not run here: {why}")
    eager = tiny("llama", "eager")
    with eager.trace(IDS):
        expected = eager.layers[1].self_attn.attention_probabilities
    with model.trace(IDS):
        assert torch.allclose(model.layers[1].self_attn.attention_probabilities, expected, atol=1e-5)
        assert torch.allclose(model.logits, plain, atol=1e-3)


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "granite", "bloom", "falcon", "gemma2"])
def test_head_contributions_sum_to_the_output(model_type):
    model = tiny(model_type)
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        parts = attention.attention_head_contributions
        out = attention.o_proj.output
    bias = attention.o_proj._module.bias
    scale = getattr(model.config, "residual_multiplier", 1.0)
    assert parts.shape == (1, 6, attention.num_heads, model.hidden_size)
    assert torch.allclose(parts.sum(2), (out - (0 if bias is None else bias)) * scale, atol=1e-4)
