"""Named checkpoints: the sizes that their pages show are the published ones, and every page says where its figures are from."""

from __future__ import annotations

import json

import pytest

from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.flagships import KEPT, flagship
from nnatlas.encyclopedia.outline import DEFAULTS, kept

PUBLISHED = {  # blocks, width, heads, kv heads, vocabulary
    "llama": (32, 4096, 32, 8, 128256),
    "mistral": (32, 4096, 32, 8, 32000),
    "mixtral": (32, 4096, 32, 8, 32000),
    "gemma": (28, 3072, 16, 16, 256000),
    "gemma2": (26, 2304, 8, 4, 256000),
    "gemma3_text": (26, 1152, 4, 1, 262144),
    "gemma3": (34, 2560, 8, 4, 262208),
    "qwen2": (28, 3584, 28, 4, 152064),
    "qwen2_moe": (24, 2048, 16, 16, 151936),
    "qwen3": (36, 4096, 32, 8, 151936),
    "qwen3_moe": (48, 2048, 32, 4, 151936),
    "qwen3_next": (48, 2048, 16, 2, 151936),
    "olmo": (32, 4096, 32, 32, 50304),
    "olmo2": (32, 4096, 32, 32, 100352),
    "olmo3": (32, 4096, 32, 32, 100278),
    "phi": (32, 2560, 32, 32, 51200),
    "phi3": (32, 3072, 32, 32, 32064),
    "falcon": (32, 4544, 71, 1, 65024),
    "stablelm": (32, 2560, 32, 32, 50304),
    "gptj": (28, 4096, 16, 16, 50400),
    "gpt2": (12, 768, 12, 12, 50257),
    "gpt_bigcode": (24, 2048, 16, 1, 49280),
    "cohere": (32, 4096, 32, 8, 256000),
    "deepseek_v2": (27, 2048, 16, 16, 102400),
    "deepseek_v3": (61, 7168, 128, 128, 129280),
    "gpt_oss": (24, 2880, 64, 8, 201088),
    "llama4": (48, 5120, 40, 8, 202048),
    "granite": (40, 4096, 32, 8, 49155),
    "nemotron": (32, 4096, 48, 8, 256000),
    "dbrx": (40, 6144, 48, 8, 100352),
    "mpt": (32, 4096, 32, 32, None),
    "jetmoe": (24, 2048, 32, 16, 32000),
    "bamba": (32, 4096, 32, 8, 128256),
    "dots1": (62, 4096, 32, 32, 152064),
    "opt": (24, 2048, 32, 32, 50272),
    "bloom": (24, 1024, 16, 16, 250880),
    "ministral3": (26, 3072, 32, 8, 131072),
    "mamba": (64, 2560, None, None, 50280),
    "mamba2": (64, 4096, None, None, 32768),
    "falcon_mamba": (64, 4096, None, None, 65024),
    "llava": (32, 4096, 32, 32, 32064),
}
NAMES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "vocab_size")


@pytest.mark.parametrize("model_type", sorted(PUBLISHED))
def test_sizes_are_the_published_ones(model_type):
    outline = kept(model_type)
    sizes = {name: size for name, size in zip(NAMES, PUBLISHED[model_type], strict=True) if size is not None}
    first = next((one.bound.sizes for one in outline.variants if "num_heads" in one.bound.sizes), {})
    assert {name: (first | outline.root.sizes).get(name) for name in sizes} == sizes
    assert outline.checkpoint == flagship(model_type).checkpoint
    assert not outline.of_defaults


def test_every_named_checkpoint_says_where_its_figures_are_from():
    named = json.loads(KEPT.read_text(encoding="utf-8"))
    assert len(named) >= 46
    for model_type, told in named.items():
        assert "config.json" in told["known"] or "defaults" in told["known"], model_type
        assert told["known"] != DEFAULTS, model_type


def test_pages_of_defaults_do_not_pass_for_a_checkpoint(site):
    outline = kept("xglm")
    assert outline.of_defaults and outline.checkpoint
    page = " ".join(site.text("family/xglm.html").split())
    assert "own figures may differ" in page
    assert f"Drawn: <code>{outline.checkpoint}</code>" not in page
    assert sum(kept(name).of_defaults for name in measurements.types()) < 190
