"""What a model prints: every value with its layout, both names of a module, reasons for what is absent; any width."""

from __future__ import annotations

import io
import re

import pytest
import torch
from rich.console import Console
from torch import nn

import nnatlas
from nnatlas.model.printing import Tree
from nnatlas.show import text_of
from nnatlas.values import VALUES, on_host

FAMILIES = ["apertus", "helium", "exaone4", "cohere2", "mixtral", "gpt2", "bloom", "opt"]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return nnatlas.load(f"tiny:{request.param}")


@pytest.fixture(scope="module")
def apertus():
    return nnatlas.load("tiny:apertus")


def terminal(shown, width: int) -> str:
    """What a colour terminal of this width receives."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="truecolor", legacy_windows=False).print(shown)
    return out.getvalue()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def joined(text: str) -> str:
    """Folded lines put together again."""
    return " ".join(text.split())


# --- the tree -------------------------------------------------------------------------------------------------------


def test_every_value_is_listed_with_its_layout_or_its_reason(model):
    text = repr(model)
    for host in (model._owner.root, model._owner.blocks[0], *model._owner.blocks[0].parts.values()):
        for name in host.values:
            reason = host.absence(name)
            if reason is None:
                assert f"({name}) -> {host.point(name).layout}: " in text
            else:
                assert re.search(rf"\([\w, ]*\b{name}\b[\w, ]*\): not available: {re.escape(reason)}", text), name


def test_what_the_encyclopedia_says_of_four_families():
    for name, gone in {
        "exaone4": ["attention_norm_output", "mlp_norm_output"],
        "cohere2": ["layer_mid"],
        "helium": [],
    }.items():
        text = repr(nnatlas.load(f"tiny:{name}"))
        block = text[text.index("DecoderLayer(") : text.index("(input_ids)")]
        absent = re.findall(r"^      \(([\w, ]+)\): not available: (.+)$", block, re.MULTILINE)
        assert sorted(one for names, _ in absent for one in names.split(", ")) == gone
        assert all(len(reason) > 30 for _, reason in absent)


def test_standard_and_native_names_stand_side_by_side(apertus):
    text = repr(apertus)
    assert "(attention_norm/input_layernorm/attention_layernorm): ApertusRMSNorm" in text
    assert "(mlp_norm/post_attention_layernorm/feedforward_layernorm): ApertusRMSNorm" in text
    assert "(q_proj): Linear(in_features=64" in text  # one name where they agree
    for shown in ("attention_norm", "input_layernorm", "attention_layernorm"):
        assert isinstance(getattr(apertus.layers[0], shown)._module, nn.Module)
    assert "(mlp_post_norm/post_feedforward_layernorm)" in repr(nnatlas.load("tiny:exaone4"))


def test_like_blocks_are_shown_once_and_unlike_ones_apart(apertus):
    assert repr(apertus).count("ApertusDecoderLayer(") == 1
    assert "(0-3): 4 x ApertusDecoderLayer(" in repr(apertus)
    assert "(layers): 4 blocks" in repr(apertus)


def test_a_part_and_a_native_module_print_themselves(apertus):
    part = repr(apertus.layers[2].mlp)
    assert part.startswith("ApertusMLP(\n  (up_proj): Linear") and part.endswith(")")
    assert "(mlp_output) -> Residual [batch seq hidden_size]" in part and "layer_output" not in part
    native = repr(apertus.layers[2].mlp.up_proj)
    assert native == "model.layers.2.mlp.up_proj: Linear(in_features=64, out_features=112, bias=False)"


def test_printing_runs_nothing_and_works_inside_a_run(apertus):
    outside = repr(apertus)
    with apertus.trace(torch.arange(4)) as run:
        before = repr(apertus)
        first = apertus.layers[0].layer_input  # not past it: printing did not move the forward
        assert "open" in repr(run) and text_of(run) == repr(run)
    assert before == outside and first.shape == (1, 4, 64)


@pytest.mark.parametrize("width", [60, 100, 140])
def test_a_terminal_gets_colour_and_no_line_too_long(model, width):
    coloured = terminal(model, width)
    lines = plain(coloured).split("\n")
    assert max(map(len, lines)) <= width
    assert "\x1b[" in coloured and "\x1b" not in repr(model)
    assert "".join("".join(lines).split()) == "".join(repr(model).split())  # the same letters, folded


def test_what_is_folded_hangs_under_its_own_line(apertus):
    lines = text_of(Tree(apertus), 80).split("\n")
    at = next(i for i, line in enumerate(lines) if "(attention_keys)" in line)
    assert lines[at].startswith(" " * 8 + "(") and lines[at + 1].startswith(" " * 12) and "(" not in lines[at + 1][:13]


def test_a_notebook_gets_escaped_html(apertus):
    html = apertus._repr_html_()
    assert html.startswith("<pre") and "attention_queries" in html and "<script" not in html
    assert "&lt;" not in repr(apertus) and "-&gt;" in html
    assert plain(html) == html


# --- support --------------------------------------------------------------------------------------------------------


def test_support_lists_every_value_once_grouped_by_host(model):
    support, text = model.support(), repr(model.support())
    served, _, gone = text.partition("not available")
    for key, row in support.rows.items():
        name = key.rpartition(".")[2]
        pattern = rf"^  {re.escape(key)}\b" if row.nowhere else rf"^  {name} +{re.escape(str(row.layout))}"
        assert re.search(pattern, gone if row.nowhere else served, re.MULTILINE), key
    heads = [line for line in served.split("\n") if line.startswith("model")]
    assert heads == ["model", "model.layers[i]", "model.layers[i].self_attn", "model.layers[i].mlp"]
    for reason in support.absent.values():
        assert joined(reason) in joined(gone) or reason.split()[0] in gone


def test_support_fits_a_terminal_of_100_columns(model):
    lines = plain(terminal(model.support(), 100)).split("\n")
    assert max(map(len, map(str.rstrip, lines))) <= 100
    names = [value.name for host in ("block", "self_attn") for value in on_host(host)]
    cut = [line for line in lines if any(line.strip() == name[:-1] for name in names)]
    assert cut == []  # no name is folded
    assert "[batch num_heads seq qk_head_dim]" in "\n".join(lines)


def test_support_html_is_escaped_and_complete(model):
    html = model.support()._repr_html_()
    assert all(key.rpartition(".")[2] in html for key in model.support().rows)
    assert html.count("<table>") == html.count("</table>") == 1


def test_the_vocabulary_is_what_is_listed(apertus):
    shown = set(apertus.support().rows)
    assert shown == {key for key, value in VALUES.items() if value.host != "linear_attn"}
