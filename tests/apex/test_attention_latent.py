"""The latent attention: absorbed and expanded forms agree, and the cache is as small as it should be."""

from __future__ import annotations

import pytest
import torch
from tests.apex.small_models import tiny_model, tokens
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import AttentionInterface

from nnatlas.apex.attention import eager_attention_forward
from nnatlas.apex.attention_latent import Apex1LatentAttention
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.modeling import Apex1ForCausalLM


def calls_to(monkeypatch) -> list[int]:
    """Records how many queries each absorbed call had."""
    seen, absorbed = [], Apex1LatentAttention.attend_absorbed

    def recording(self, query, *rest):
        seen.append(query.shape[2])
        return absorbed(self, query, *rest)

    monkeypatch.setattr(Apex1LatentAttention, "attend_absorbed", recording)
    return seen


@torch.no_grad()
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("padding", [0, 3])
def test_absorbed_equals_expanded(monkeypatch, attention, padding):
    """G31: with a past, nothing is expanded again, and the numbers stay the same."""
    model, ids = tiny_model(), tokens(2, 20)
    model.set_attn_implementation(attention)
    mask = torch.ones_like(ids)
    mask[1, :padding] = 0
    absorbed_calls = calls_to(monkeypatch)
    expanded = model(ids, attention_mask=mask).logits
    assert absorbed_calls == []
    past = model(ids[:, :12], attention_mask=mask[:, :12], use_cache=True).cache
    steps = [model(ids[:, 12:15], attention_mask=mask[:, :15], cache=past).logits]
    steps += [model(ids[:, t : t + 1], attention_mask=mask[:, : t + 1], cache=past).logits for t in range(15, 20)]
    assert absorbed_calls == [3, 3, *[1] * 10]  # two global blocks
    torch.testing.assert_close(torch.cat(steps, dim=1), expanded[:, 12:], atol=1e-4, rtol=0)


@torch.no_grad()
def test_another_attention_function_is_given_expanded_queries_and_keys(monkeypatch):
    """An observer under the interface sees head_dim + rope wide queries in decoding too, and the same result."""
    model, ids, widths = tiny_model(), tokens(1, 12), []

    def observer(module, query, key, value, *args, **kwargs):
        if isinstance(module, Apex1LatentAttention):
            widths.append((query.shape[-1], key.shape[-1], value.shape[-1], key.shape[1]))
        return eager_attention_forward(module, query, key, value, *args, **kwargs)

    expected = [model(ids[:, :11], use_cache=True)]
    expected.append(model(ids[:, 11:], cache=expected[0].cache))
    monkeypatch.setitem(AttentionInterface._global_mapping, "observer", observer)
    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._local_mapping, "observer", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    monkeypatch.setitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, "observer", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    model.config._attn_implementation = "observer"
    watched = [model(ids[:, :11], use_cache=True)]
    watched.append(model(ids[:, 11:], cache=watched[0].cache))
    assert widths == [(12, 12, 8, 2)] * 4
    torch.testing.assert_close(watched[1].logits, expected[1].logits, atol=1e-4, rtol=0)


@torch.no_grad()
def test_torchs_fused_attention_is_given_the_equal_widths_it_wants(monkeypatch):
    """Keys of 12 and values of 8 would send sdpa to its slow path."""
    model, ids, widths = tiny_model(), tokens(1, 12), []
    fused = torch.nn.functional.scaled_dot_product_attention

    def watched(query, key, value, **kwargs):
        widths.append((query.shape[-1], key.shape[-1], value.shape[-1]))
        return fused(query, key, value, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    model.set_attn_implementation("sdpa")
    logits = model(ids).logits
    assert widths == [(8, 8, 8), (8, 8, 8), (12, 12, 12)] * 2
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(ids).logits, logits, atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_global_block_stores_the_latent_and_a_rope_key_per_kv_head():
    """G32: half of what grouped keys and values would need, no more is claimed."""
    model = tiny_model()
    cache = model(tokens(1, 10), use_cache=True).cache
    stored = [layer.keys.numel() + layer.values.numel() for layer in cache.layers]
    assert stored[2] == 10 * (12 + 2 * 4)  # latent 12, two rope keys of 4
    assert stored[0] == 7 * (2 * 2 * 8)  # window 8 keeps 7; keys and values of two heads of 8
    for name in ("small", "medium", "large"):
        c = Apex1Config.preset(name)
        latent = c.kv_lora_rank + c.num_key_value_heads * c.qk_rope_head_dim
        assert latent / (2 * c.num_key_value_heads * c.head_dim) == 0.5


def test_absorbing_depends_on_the_cost():
    with torch.device("meta"):
        attention = Apex1ForCausalLM(Apex1Config.preset("medium", num_hidden_layers=6)).model.blocks[5].attn.eval()
    assert attention.absorbing_is_cheaper(1, 4096)
    assert attention.absorbing_is_cheaper(63, 4096)
    assert not attention.absorbing_is_cheaper(64, 4096)  # latent 256, head 128: even at 64 queries
    assert not attention.absorbing_is_cheaper(8, 8)  # no past


@torch.no_grad()
def test_masks_are_made_once_per_kind_not_per_block(monkeypatch):
    """G33: one mask per block and forward, each seq by seq."""
    from nnatlas.apex import masks

    made = []
    for name in ("create_causal_mask", "create_sliding_window_causal_mask"):
        original = getattr(masks, name)
        monkeypatch.setattr(masks, name, lambda name=name, original=original, **kw: made.append(name) or original(**kw))
    model = tiny_model()
    model(tokens(1, 6))
    assert len(made) == 2
    model.set_attn_implementation("sdpa")
    assert masks.attention_masks(model.config, torch.zeros(1, 6, 32), None, None, None, 0) == {
        "full_attention": None,  # sdpa's own causal kernel is used
        "sliding_attention": None,  # within the window it is causal too
    }
