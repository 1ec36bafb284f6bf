"""Families with recurrent mixers: which block is of which kind, what is absent there and why, and the laws."""

from __future__ import annotations

import pytest
from tests.tiny_models import IDS, tiny

import nnatlas
from nnatlas import families
from nnatlas.tiny import tiny_model

PROVEN = "mamba2 minimax nemotron_h".split()


@pytest.mark.parametrize("model_type", PROVEN)
def test_every_law_holds(model_type):
    report = nnatlas.check(f"tiny:{model_type}")
    assert [str(failure) for failure in report.failures] == []


def parts(model_type: str) -> list[str]:
    """Each block's mixers and MLP, by their first letters."""
    blocks = tiny(model_type)._owner.blocks
    return ["".join(part[0] for part in ("self_attn", "linear_attn", "mlp") if part in block.parts) for block in blocks]


@pytest.mark.parametrize(
    "model_type, expected",
    [
        ("mamba", ["l", "l", "l", "l"]),
        ("nemotron_h", ["l", "m", "s", "m"]),
        ("falcon_h1", ["slm", "slm", "slm", "slm"]),
        ("qwen3_next", ["lm", "lm", "lm", "sm"]),
        ("kimi_linear", ["lm", "lm", "lm", "sm"]),
        ("recurrent_gemma", ["lm", "lm", "sm", "lm"]),
        ("zamba", ["l", "l", "slm", "l", "slm", "l"]),
    ],
)
def test_each_block_has_the_parts_of_its_kind(model_type, expected):
    assert parts(model_type) == expected


def test_support_says_why_a_block_lacks_a_mixer():
    support = tiny("qwen3_next").support()
    assert support["self_attn.attention_queries"].startswith("blocks 0-2: this block mixes tokens by a recurrence")
    assert support["linear_attn.decays"].startswith("blocks 3: this block mixes tokens by attention")
    assert tiny("mamba").support()["mlp.mlp_output"].startswith("this block has no MLP")


def test_sizes_of_a_mixer_are_its_own():
    mixer = tiny("qwen3_next").layers[0].linear_attn
    assert (mixer.num_heads, mixer.num_key_heads, mixer.key_head_dim, mixer.value_head_dim) == (4, 2, 16, 16)
    assert tiny("mamba").layers[0].linear_attn.state_size == 16


def test_both_mixers_of_one_block_add_to_the_stream():
    model = tiny("falcon_h1")
    found = model.collect(
        IDS, ["layers.1.*", "layers.1.self_attn.attention_output", "layers.1.linear_attn.attention_output"]
    )
    block = found.layers[1]
    added = block.self_attn.attention_output + block.linear_attn.attention_output
    assert ((block.layer_input + added) - block.layer_mid).abs().max() < 1e-5


def test_a_shared_transformer_is_read_at_the_depth_that_was_asked_for():
    """Zamba's hybrid blocks share one transformer's weights; each depth has queries of its own."""
    model = tiny("zamba")
    first, second = (f"layers.{at}.self_attn.attention_queries" for at in (2, 4))
    both = model.collect(IDS, [second, first])
    assert not both[first].allclose(both[second])
    with model.trace(IDS):
        assert model.layers[4].self_attn.attention_queries.equal(both[second])


@pytest.mark.parametrize(
    "model_type, switch",
    [
        ("granitemoehybrid", {"num_local_experts": 0}),
        ("nemotron_h", {"moe_latent_size": 32}),
        ("lfm3", {"use_sandwich_norm": False, "use_attention_gate": False}),
        ("rwkv", {"rescale_every": 2}),
    ],
    ids=lambda one: one if isinstance(one, str) else ",".join(one),
)
def test_every_law_holds_with_a_config_switch(model_type, switch):
    row = families.find(model_type)
    assert row is not None
    report = nnatlas.check(nnatlas.load(tiny_model(model_type, {**row.tiny, **switch})))
    assert [str(failure) for failure in report.failures] == []


@pytest.mark.parametrize("model_type, switch", [("mamba", {"use_bias": False}), ("lfm2", {"conv_bias": False})])
def test_padding_stays_out_where_no_bias_fills_it(model_type, switch):
    """The exception that these rows declare for padding is for checkpoints with such a bias alone."""
    row = families.find(model_type)
    assert row is not None
    report = nnatlas.check(nnatlas.load(tiny_model(model_type, {**row.tiny, **switch})), laws="batch")
    padded = [finding for finding in report.findings if finding.value.startswith("padding")]
    assert {finding.status for finding in padded} == {"holds"}
