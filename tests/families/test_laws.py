"""Every law on every row of the first twenty families, under sdpa and under eager attention where there are both."""

from __future__ import annotations

import pytest

import nnatlas
from nnatlas.check import SENTENCES

TYPES = (
    "apertus bloom cohere cohere2 exaone4 falcon gemma2 gpt2 gpt_neox gpt_oss granite helium llama mistral mixtral olmo2 "
    "opt phi qwen2 qwen3"
).split()
EAGER_ONLY = {"bloom", "gemma2", "gpt_oss"}
CASES = [(kind, way) for kind in TYPES for way in ("sdpa", "eager") if way == "eager" or kind not in EAGER_ONLY]


@pytest.mark.parametrize("model_type, implementation", CASES, ids=[f"{kind}-{way}" for kind, way in CASES])
def test_every_law_holds(model_type, implementation):
    report = nnatlas.check(f"tiny:{model_type}", attn_implementation=implementation)
    assert report.subject["attention"] == implementation
    assert [str(failure) for failure in report.failures] == []
    assert [law for law in SENTENCES if not report.laws[law]["holds"]] == []
    served = {key: one for key, one in report.values.items() if not one.absent}
    assert {"block.layer_input", "self_attn.attention_scores", "mlp.mlp_output", "logits"} <= served.keys()
    assert [key for key, one in served.items() if one.read != "holds" or not one.write or not one.gradient] == []


@pytest.mark.parametrize("model_type", sorted(EAGER_ONLY))
def test_these_have_no_sdpa(model_type):
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        nnatlas.load(f"tiny:{model_type}", attn_implementation="sdpa")
