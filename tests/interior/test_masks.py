"""What a kernel leaves out by itself is left out step by step too, whichever way it counts its queries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from tests.tiny_models import IDS, tiny

from nnatlas.interior.masks import additive


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_static_cache_longer_than_the_prompt(implementation):
    model = tiny("llama", implementation)
    ways = {"max_new_tokens": 3, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    wanted, patterns = model._module.generate(IDS, **ways), {}
    for cache in ("dynamic", "static"):
        with model.generate(IDS, cache_implementation=cache, **ways) as run:
            patterns[cache] = [model.layers[1].self_attn.attention_probabilities for _ in run.steps()]
        for read, alone in zip(run.output.logits, wanted.logits, strict=True):
            torch.testing.assert_close(read, alone, atol=1e-5, rtol=1e-5)
    for static, dynamic in zip(patterns["static"], patterns["dynamic"], strict=True):
        filled = dynamic.shape[-1]
        torch.testing.assert_close(static[..., :filled], dynamic)
        assert static.shape[-1] > filled or static is patterns["static"][-1]
        assert not static[..., filled:].any()


@pytest.mark.parametrize(
    ("causal", "queries", "seen"),
    [
        (True, 5, ["x....", "xx...", ".xx..", "..xx.", "...xx"]),
        (True, 2, ["..xx.", "...xx"]),
        (False, 5, ["xx...", "xxx..", ".xxx.", "..xxx", "...xx"]),
        (True, 1, ["...xx"]),
    ],
)
def test_a_window_that_only_the_kernel_knows_of(causal, queries, seen):
    module = SimpleNamespace(is_causal=causal, config=SimpleNamespace(_attn_implementation="flash_attention_2"))
    query, key = torch.zeros(1, 2, queries, 4), torch.zeros(1, 2, 5, 4)
    mask = additive(module, None, query, key, None, window=2)[0, 0]
    assert ["".join("x" if allowed else "." for allowed in row) for row in mask.eq(0).tolist()] == seen
