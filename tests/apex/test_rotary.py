"""YaRN as published, its attention factor in use, and tables that stay in float32."""

from __future__ import annotations

import pytest
import torch
from tests.apex import oracle
from tests.apex.small_models import tiny_model, tokens

from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.rotary import Apex1RotaryCache, attention_factor, rotary_frequencies


@pytest.mark.parametrize(
    "preset, width, counts", [("medium", "head_dim", (22, 17, 25)), ("medium", "qk_rope_head_dim", (11, 9, 12)),
                              ("large", "head_dim", (21, 16, 27))]
)  # fmt: skip
def test_c14_published_yarn_is_a_ramp(preset, width, counts):
    """(untouched, between, fully scaled) frequencies; the public code's step had none between."""
    config = Apex1Config.preset(preset)
    width, rope = getattr(config, width), config.rope_parameters
    theta = rotary_frequencies(config, width)
    plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, width, 2).float() / width)
    ratio = theta / plain
    untouched, scaled = torch.isclose(ratio, torch.ones(())), torch.isclose(ratio, torch.tensor(1 / rope["factor"]))
    assert (int(untouched.sum()), int((~untouched & ~scaled).sum()), int(scaled.sum())) == counts
    torch.testing.assert_close(theta, torch.tensor(oracle.frequencies(config, width)), rtol=1e-4, atol=1e-9)
    assert rope["original_max_position_embeddings"] == config.max_position_embeddings / rope["factor"]


def test_c14_the_attention_factor_scales_every_score():
    assert attention_factor(Apex1Config.preset("medium")) == pytest.approx(1.138629436)
    assert attention_factor(Apex1Config.preset("large")) == pytest.approx(1.207944154)
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
    model = tiny_model(rope_parameters=yarn)
    for block, width in ((model.model.blocks[0], 8), (model.model.blocks[2], 12)):
        assert block.attn.scaling == pytest.approx(1.138629436**2 / width**0.5)
    off = tiny_model(rope_parameters=yarn | {"attention_factor": 1.0})
    with torch.no_grad():
        assert (model(tokens(1, 8)).logits - off(tokens(1, 8)).logits).abs().max() > 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_f28_tables_do_not_follow_the_models_dtype(dtype):
    model = tiny_model().to(dtype)
    for table in (model.model.rotary_cache, model.model.rotary_cache_rope):
        exact = Apex1RotaryCache(model.config, table.width)
        positions = torch.arange(1000)[None]
        assert torch.equal(table(positions), exact(positions))


def test_the_two_tables_differ_in_width():
    model = tiny_model()
    assert [m.inv_freq.shape for m in (model.model.rotary_cache, model.model.rotary_cache_rope)] == [(4,), (2,)]
