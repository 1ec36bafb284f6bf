"""What family pages say, held against facts that are known otherwise."""

from __future__ import annotations

import re
from html import unescape

import pytest
import torch

import nnatlas
from nnatlas import families
from nnatlas.encyclopedia import measurements, render
from nnatlas.encyclopedia.links import Links, Site
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.page import FamilyPage, family_page
from nnatlas.values import VALUES


@pytest.fixture(scope="module")
def pages():
    links = Links("family/x", "../", Site(measurements.types(), frozenset(measurements.BADGES)))

    def made(model_type: str) -> FamilyPage:
        return family_page(model_type, kept(model_type), links)

    return made


def keys(page: FamilyPage, at: int = 0) -> list[str]:
    """What is drawn of one sort of block, from top to bottom."""
    return [box.chip.text for box in sorted(page.pictures[at].drawing.boxes, key=lambda box: box.y)]


def badges(page: FamilyPage) -> set[str]:
    return {trait.key for trait in page.badges}


def test_post_norms_stand_after_what_they_norm(pages):
    shown = keys(pages("exaone4"))
    assert shown.index("o_proj") < shown.index("post_attention_layernorm") < shown.index("attention_output")
    assert shown.index("down_proj") < shown.index("post_feedforward_layernorm") < shown.index("mlp_output")


def test_sorts_of_block_are_told_apart(pages):
    page = pages("exaone4")
    sliding, full = page.pictures
    assert (sliding.blocks, full.blocks) == ("all but every 4th block from 3", "every 4th block from 3")
    assert "window 4096" in keys(page, 0) and "rotary" in keys(page, 0)
    assert "window 4096" not in keys(page, 1) and "no rotary" in keys(page, 1)
    assert sorted((*sliding.numbers, *full.numbers)) == list(range(64))


def test_the_release_of_transformers_that_a_type_needs_is_said(pages):
    links = Links("family/x", "../", Site(measurements.types(), frozenset(measurements.BADGES)))
    said = {name: render.render("family.j2", links, page=pages(name)) for name in ("dory", "llama")}
    assert "needs transformers 5.24" in said["dory"] and "needs transformers" not in said["llama"]


def test_a_parallel_block_has_one_norm_and_one_sum(pages):
    page = pages("cohere2")
    assert keys(page).count("input_layernorm") == 1 and "layer_mid" not in keys(page)
    assert len(page.pictures[0].drawing.adds) == 1
    assert len(pages("llama").pictures[0].drawing.adds) == 2


def test_scales_and_caps_are_drawn(pages):
    assert "× logit_scale" in keys(pages("cohere2"))
    assert "× residual_multiplier" in keys(pages("granite"))
    assert "cap final_logit_softcapping" in keys(pages("gemma2")) and "soft cap" in keys(pages("gemma2"))
    assert "learned sink" in keys(pages("gpt_oss")) and "learned sink" not in keys(pages("gemma2"))
    assert "× layer_scalar" in keys(pages("gemma4_text"))  # the row states what the sum is before it: output / scalar
    assert "× scale" in keys(pages("gemma2")) and "× scale" not in keys(pages("llama"))


def test_badges_are_what_the_seed_pages_name():
    """The traits that the four pages of the encyclopedia's first draft gave, under the field's names."""
    expected = {
        "apertus": {"qk-norm", "learned-activation", "gqa"},
        "helium": {"interleaved-rotary", "mha"},
        "exaone4": {"post-norms", "qk-norm", "sliding", "nope-blocks", "gqa"},
        "cohere2": {"parallel", "layernorm", "sliding", "nope-blocks", "interleaved-rotary", "scaled-logits", "gqa"},
    }
    for name, traits in expected.items():
        found = measurements.traits_of(families.rows()[name], measurements.measured(name), kept(name))
        assert traits <= set(found), name


def test_tables_speak_of_every_value_once(pages):
    for name in ("llama", "mamba2", "qwen3_next", "mixtral"):
        page = pages(name)
        told = [row.value.key for table in page.tables for row in (*table.rows, *table.absent)]
        hosts = [table.host for table in page.tables if table.nowhere]
        left = [key for key in VALUES if key not in told and key.partition(".")[0] not in hosts]
        assert left == [] and len(told) == len(set(told)), name


def test_marks_are_the_laws_verdicts(pages):
    rows = {row.value.key: row for table in pages("llama").tables for row in table.rows}
    marks = {key: [status.mark for status in row.statuses] for key, row in rows.items()}
    assert marks["block.layer_mid"] == ["yes", "yes", "yes"]
    assert marks["next_token_probs"] == ["yes", "no", "no"]
    assert marks["input_ids"] == ["yes", "yes", "no"]
    assert marks["self_attn.attention_head_contributions"] == ["yes", "no", "no"]
    excepted = {row.value.key: row.statuses for table in pages("qwen3_next").tables for row in table.rows}
    assert excepted["linear_attn.state_output"][2].mark == "excepted"
    assert "no longer depend" in excepted["linear_attn.state_output"][2].why


def test_marks_agree_with_a_check_of_the_tiny_model(pages):
    report = nnatlas.check("tiny:cohere2", laws=["shape", "causal", "gradient"])
    for table in pages("cohere2").tables:
        for row in table.rows:
            found = report.values[row.value.key]
            for status in row.statuses:
                assert (status.mark == "yes") == (
                    getattr(found, status.what) == "holds"
                ) or row.value.name == "input_size"


def test_conditions_are_marked(pages):
    rows = {row.value.key: row for table in pages("llama").tables for row in table.rows}
    assert "step by step" in rows["self_attn.attention_scores"].condition
    assert rows["self_attn.attention_queries"].condition == ""


def test_config_and_printout_are_the_flagships(pages):
    page = pages("apertus")
    assert page.outline.checkpoint == "swiss-ai/Apertus-8B-2509"
    assert (page.sizes["num_layers"], page.sizes["num_kv_heads"], page.sizes["intermediate_size"]) == (32, 8, 21504)
    assert page.outline.config["hidden_act"] == "xielu"
    printed = "\n".join(page.printout)
    assert "Linear(in_features=4096, out_features=21504, bias=False)" in printed
    assert "(attention_norm/input_layernorm/attention_layernorm)" in printed


def test_the_printout_is_what_print_says(pages):
    """Of a model that can be built here in full, the lines shown are those of `print(model)`."""
    assert str(nnatlas.load("apex-1")).splitlines() == list(pages("apex1").printout)


def test_a_page_reads_without_scripts(site):
    text = re.sub(r"<script.*?</script>", "", site.text("family/cohere2.html"), flags=re.DOTALL)
    plain = unescape(re.sub(r"<[^>]+>", "", text))
    for said in (
        "attention_probabilities",
        "layer_input + attention_output + mlp_output = layer_output",
        "logit_scale",
        "FAMILY =",
    ):
        assert said in plain
    assert not re.search(r"<(figure|div)[^>]*class=\"(picture|identity)\"[^>]*hidden", text)


def test_turns_are_measured_not_named():
    """The rotary's two forms, told apart by what keeps its length, on vectors turned by hand."""
    from nnatlas.encyclopedia.behaviour import _turns

    angle = torch.linspace(0.1, 1.2, 4)
    x = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0))
    a, b = x.unflatten(-1, (4, 2)).unbind(-1)
    pairs = torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    halves = torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)
    assert (_turns(x, pairs), _turns(x, halves), _turns(x, 2 * x)) == ("pairs", "halves", "")
