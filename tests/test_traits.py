"""Traits are read off rows and measurements; kept measurements come back as they went in and are known to be stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnatlas import families
from nnatlas.errors import InputError
from nnatlas.families._shapes import LLAMA, PARALLEL_ONE_NORM, absent
from nnatlas.traits import TRAITS, having, kept, measured, traits_of
from nnatlas.traits.fingerprint import fingerprint
from nnatlas.traits.measured import Kept, from_reports, from_text, read, to_text
from nnatlas.values import VALUES

# --- the kept measurements ------------------------------------------------------------------------------------------


def test_no_measurement_is_stale():
    assert kept().stale() == [], (
        "rows changed since they were measured: run `nnatlas check --all --stale` and `make docs`"
    )


def test_no_law_is_broken_and_nothing_is_served_unproven():
    assert {name: one.error or one.failures[0] for name, one in kept().types.items() if not one.passed} == {}
    assert {name: one.unproven for name, one in kept().types.items() if one.unproven} == {}


def test_most_types_serve_the_stream_and_the_interior_or_say_why_not():
    types = kept().types.values()
    stream = ("block.layer_input", "block.layer_output", "logits")
    interior = tuple(f"self_attn.attention_{name}" for name in ("queries", "scores", "probabilities", "head_outputs"))
    assert sum(one.serves(*stream) for one in types) >= 230
    assert sum(one.serves_or_says(*interior) for one in types) >= 220
    assert sum(one.serves(*interior) for one in types) >= 180


def test_every_value_is_served_or_absent_with_a_reason():
    for one in kept().types.values():
        assert one.error or set(one.served) | set(one.absent) == set(VALUES), one.model_type
        assert not set(one.served) & set(one.absent) and all(one.absent.values())


def test_the_file_is_one_line_a_type_and_the_same_when_written_again():
    text = measured.KEPT.read_text(encoding="utf-8")
    assert to_text(from_text(text)) == text
    lines = text.splitlines()
    assert sum(line.startswith(' "') and '": {"' in line for line in lines) == len(kept().types)
    assert len(text) < 400_000


# --- fingerprints ---------------------------------------------------------------------------------------------------


def test_a_fingerprint_is_of_facts_and_not_of_prose():
    same = fingerprint(LLAMA.but())
    assert fingerprint(LLAMA.but().remade(summary="other words", notes={"logits": "other"})) == same
    changed = [
        LLAMA.but(mlp_norm="pre_norm"),
        LLAMA.but(layer_mid=absent("why")),
        LLAMA.but(readout="norm | lm_head | * 2"),
        LLAMA.but(breaks={"batch": "why"}),
        LLAMA.but(tiny={"layers": 3}),
        LLAMA.but(looped=True),
    ]
    found = {fingerprint(one) for one in changed}
    assert len(found) == len(changed) and same not in found


def test_a_changed_row_is_stale_and_a_new_measurement_replaces_the_old(monkeypatch):
    old = kept()
    rows = {**families.rows(), "llama": LLAMA.but(mlp_norm="pre_norm")}
    monkeypatch.setattr(families, "rows", lambda: rows)
    assert set(old.stale()) - set(Kept(old.versions, {}).stale()) == set()
    assert "llama" in old.stale() and "gpt2" not in old.stale()
    new = replace(old.types["llama"], row=fingerprint(rows["llama"]))
    assert "llama" not in old.with_new(Kept({"torch": "9"}, {"llama": new})).stale()
    assert old.with_new(Kept({"torch": "9"}, {})).versions["torch"] == "9"
    assert "gone" not in old.with_new(Kept({}, {"gone": replace(new, model_type="gone")})).types


# --- from reports ---------------------------------------------------------------------------------------------------


def report(**values: dict[str, str]) -> dict:
    """The facts of a check with a few values."""
    told = {"absent": "", "served": "everywhere", "read": "holds"}
    law = {"holds": 3, "broken": 0, "excepted": 0, "unproven": 0}
    return {
        "family": "llama", "row": "0123abcd", "failures": [], "exceptions": ["batch: x: its state"],
        "laws": {"shape": law, "batch": {**law, "excepted": 1}, "causal": {**law, "excepted": 2}},
        "values": {key.replace("__", "."): {**told, **value} for key, value in values.items()},
        "structure": {"kinds": {"plain": 2}, "sizes": {"num_heads": 4}, "roles": ["norm"], "facts": ["rotates"]},
    }  # fmt: skip


def test_reports_become_measurements_and_come_back_from_text():
    first = report(logits={}, self_attn__attention_gate={"absent": "no gate", "served": "nowhere", "read": ""})
    first["values"]["block.layer_mid"] = {"absent": "", "served": "some blocks", "read": "unproven"}
    second = {**report(logits={"read": "broken"}), "failures": ["shape: logits at model: wrong"]}
    found = from_reports({"one": {"sdpa": first, "eager": second}, "two": {"error": "no such class"}}, {"torch": "2"})
    one = found.types["one"]
    assert one.attention == ("sdpa", "eager")
    assert one.laws == {"shape": "holds", "batch": "excepted", "causal": "holds"}
    assert one.served == {"logits": "everywhere", "block.layer_mid": "some blocks"}
    assert one.absent["self_attn.attention_gate"] == "no gate" and one.absent["mlp.router_logits"]
    assert set(one.absent) | set(one.served) == set(VALUES)
    assert set(one.unproven) == {"logits", "block.layer_mid"} and not one.passed
    assert not one.serves("logits") and one.serves_or_says("self_attn.attention_gate")
    assert found.types["two"].error == "no such class" and not found.types["two"].serves_or_says("logits")
    assert from_text(to_text(found)) == found


def test_a_part_that_no_block_has_is_absent_for_the_reason_of_the_row():
    found = from_reports({"llama": {"sdpa": report(logits={})}, "mamba2": {"own": report(logits={})}}, {}).types
    assert found["llama"].absent["linear_attn.states"] == "this block mixes tokens by attention: see self_attn"
    assert "mix" in found["mamba2"].absent["self_attn.attention_scores"]


def test_a_size_is_no_tensor_and_needs_no_reading():
    found = from_reports({"one": {"sdpa": report(input_size={"read": ""})}}, {})
    assert found.types["one"].unproven == ()


def test_a_file_that_holds_something_else_is_refused(tmp_path):
    path = tmp_path / "x.json"
    assert read(path) == Kept({}, {})
    path.write_text('{"types": {}}')
    with pytest.raises(InputError, match=r"x.json' holds no measurements of `nnatlas check --all`"):
        read(path)


# --- traits ---------------------------------------------------------------------------------------------------------

KNOWN = {
    "llama": "gqa rotary pre-norms rmsnorm gated-mlp",
    "gpt2": "mha fused no-rotary positions pre-norms layernorm tied",
    "bloom": "no-rotary score-bias fused layernorm",
    "falcon": "mqa parallel rotary",
    "gemma2": "sandwich-norms sliding capped-scores capped-logits scaled-embeddings",
    "olmo2": "post-norms qk-norm",
    "gpt_oss": "moe sinks sliding",
    "cohere2": "parallel nope-blocks scaled-logits layernorm",
    "deepseek_v3": "latent moe shared-experts some-dense partial-rotary",
    "granite": "scaled-branches scaled-embeddings scaled-logits",
    "mamba2": "recurrent attention-free short-conv",
    "jamba": "hybrid moe no-rotary mixed-blocks",
    "falcon_h1": "side-by-side hybrid branches",
    "qwen3_next": "hybrid gated-heads moe partial-rotary",
    "openai-gpt": "normed-sums positions",
    "llava": "images",
}
MISSING = {
    "llama": "moe parallel sinks sliding layernorm no-rotary fused qk-norm score-bias positions images",
    "gpt2": "rotary parallel gated-mlp moe rmsnorm score-bias",
    "bloom": "rotary positions parallel",
    "mamba2": "mha gqa no-rotary hybrid rotary score-bias",
    "deepseek_v3": "mha gqa mqa fused sandwich-norms",
    "olmo2": "pre-norms sandwich-norms",
}


@pytest.mark.parametrize("model_type", KNOWN)
def test_traits_that_the_field_knows(model_type):
    own = set(traits_of(model_type))
    assert set(KNOWN[model_type].split()) - own == set()
    assert set(MISSING.get(model_type, "").split()) & own == set()


def test_each_trait_is_some_types_and_not_all():
    counts = {key: len(having([key])) for key in TRAITS}
    assert [key for key, count in counts.items() if not 0 < count < len(kept().types)] == []


def test_types_are_found_by_traits_by_key_or_by_name():
    found = having(["moe", "parallel"])
    assert found and set(found) < set(having(["mixture of experts"]))
    assert not set(found) & set(having(["moe"], ["parallel"]))
    assert having(["rotary"], ["rotary"]) == []
    with pytest.raises(InputError, match="there is no trait 'rotery'; near: rotary"):
        having(["rotery"])


def test_a_type_that_was_not_measured_has_no_traits(monkeypatch):
    monkeypatch.setattr("nnatlas.traits.kept", lambda: Kept({}, {}))
    assert traits_of("llama") == () and having([]) == []


def test_row_traits_follow_the_row():
    found = kept().types["llama"]
    shown = {
        key
        for key, trait in TRAITS.items()
        if trait.shown(LLAMA.but(readout="norm | lm_head | / scale", looped=True), found)
    }
    plain = {key for key, trait in TRAITS.items() if trait.shown(PARALLEL_ONE_NORM, found)}
    assert shown - plain == {"scaled-logits", "looped"}  # parallel is measured, not taken from the row's name
