"""Wiring of tiny models: the course and the calls that a run shows, on blocks that are built in different ways."""

from __future__ import annotations

import pytest

from nnatlas import places
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.behaviour import behaviour
from nnatlas.encyclopedia.outline import SOFTMAX, kept


def first(model_type):
    return next(iter(behaviour(model_type).by_sort.values()))


def chains(facts):
    return [[add["chain"] for add in step.get("adds", ())] for step in facts["course"]]


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        ("llama", [[["input_layernorm", "self_attn"]], [["post_attention_layernorm", "mlp"]]]),
        ("cohere", [[["input_layernorm", "self_attn"], ["input_layernorm", "mlp"]]]),
        ("gpt_neox", [[["input_layernorm", "attention"], ["post_attention_layernorm", "mlp"]]]),
        ("olmo2", [[["self_attn", "post_attention_layernorm"]], [["mlp", "post_feedforward_layernorm"]]]),
        ("opt", [[["self_attn_layer_norm", "self_attn"]], [["final_layer_norm", "fc1", "activation_fn", "fc2"]]]),
        ("falcon_h1", [[["input_layernorm", "mamba"], ["input_layernorm", "self_attn"]], [["pre_ff_layernorm", "feed_forward"]]]),
        ("mamba2", [[["norm", "mixer"]]]),
    ],
)  # fmt: skip
def test_branches(model_type, expected):
    assert chains(first(model_type)) == expected


def test_two_attentions_and_a_shortcut_around_the_second():
    steps = first("longcat_flash")["course"]
    assert [len(step["adds"]) for step in steps] == [1, 1, 1, 2]
    late = next(add for add in steps[-1]["adds"] if add["chain"][-1] == "mlp")
    assert (late["chain"], late["waits"]) == (["post_attention_layernorm.0", "mlp"], 2)


def test_a_stream_that_is_normed_before_it_is_added_to():
    steps = first("minimax")["course"]
    assert steps[0] == {"stands": ["input_layernorm"]}
    assert (steps[1]["stream"], steps[1]["stands"]) == ("scaled", ["post_attention_layernorm"])


def test_calls_part_at_the_softmax():
    calls = first("bitnet")["calls"]["self_attn"]
    assert calls.index("q_proj") < calls.index(SOFTMAX) < calls.index("attn_sub_norm") < calls.index("o_proj")


def test_a_norm_after_the_scan_stands_after_it_and_norms_before_it_before():
    after = next(one for one in behaviour("mamba2").by_sort.values())["calls"]["mixer"]
    assert after.index(SOFTMAX) < after.index("norm") < after.index("out_proj")
    assert (
        SOFTMAX
        not in next(one["calls"] for one in behaviour("jamba").by_sort.values() if "mamba" in one["calls"])["mamba"]
    )


def test_sinks_and_caps_are_facts_of_their_blocks():
    by_kinds = {kinds: facts for (kinds, _), facts in behaviour("mimo_v2_flash").by_sort.items()}
    assert {kinds for kinds, facts in by_kinds.items() if facts.get("sinks")} == {("sparse", "sink")}
    assert all(facts["caps"] for facts in behaviour("gemma2").by_sort.values())
    assert not any(facts.get("caps") for facts in behaviour("gpt_oss").by_sort.values())  # a sink is no cap


@pytest.mark.parametrize("model_type", measurements.types())
def test_what_is_added_is_what_the_rows_identity_sums(model_type):
    """Kept courses against the identities that the residual law proved: as many branches as summands beside the stream."""
    for variant in kept(model_type).variants:
        steps = variant.facts.get("course")
        if not variant.identity or not steps:
            continue
        summands = [term for term in places.identity(variant.identity)[:-1] if term.value != "layer_input"]
        shared = variant.bound.roles.get(
            "shared_experts"
        )  # in a few blocks beside the mixture, whose output is their sum
        added = [add for step in steps for add in step.get("adds", ()) if add["chain"][-1] != shared]
        standing = any(step.get("join") or step.get("stands") for step in steps)
        assert len(added) == len(summands) or standing, (model_type, variant.blocks[:3])
