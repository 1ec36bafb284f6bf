"""The four pages of the nnterp encyclopedia, fact by fact (docs/seed-pages.md): every place and every check named there exists,
and the facts of shape that a page states as data are those of ours."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from tests.encyclopedia.test_notes import CHECKED, NOTES, claim
from tests.families.seed_pages import PAGE, tiny

import nnatlas
from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.flagships import configuration, flagship
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.page import named

ROOT = Path(__file__).parents[2]
TYPES = ("apertus", "helium", "exaone4", "cohere2")

# --- the table --------------------------------------------------------------------------------------------------------------


@cache
def table() -> dict[str, list[tuple[str, str, str]]]:
    """The rows of each family: fact, where it is stated, what checks it."""
    text = (ROOT / "docs" / "seed-pages.md").read_text(encoding="utf-8")
    found = {}
    for chapter in text.split("\n## ")[1:]:
        (name,) = re.findall(r"^Family `(\w+)`", chapter, re.MULTILINE)
        lines = [line for line in chapter.splitlines() if line.startswith("| ")][1:]
        found[name] = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:4]) for line in lines]
    return found


ROWS = [(name, *row) for name, rows in table().items() for row in rows]


def test_the_four_pages_are_there_in_full():
    assert tuple(table()) == TYPES
    assert all(len(rows) > 100 for rows in table().values())
    text = (ROOT / "docs" / "seed-pages.md").read_text(encoding="utf-8")
    assert re.findall(r"(\d+) facts", text) == [str(len(rows)) for rows in table().values()]
    assert len({(name, fact) for name, fact, *_ in ROWS}) == len(ROWS)


def test_all_25_values_of_every_page_are_in_its_table():
    for name, rows in table().items():
        assert {re.sub("`values: |`", "", stated) for _, stated, _ in rows if stated.startswith("`values: ")} == set(
            PAGE
        ), name


@cache
def ids_of_the_page() -> set[str]:
    folder = ROOT / "src" / "nnatlas" / "encyclopedia" / "templates"
    return set(re.findall(r'id="([a-z]+)"', (folder / "family.j2").read_text(encoding="utf-8")))


def is_stated(name: str, place: str) -> bool:
    """Whether a place in the table is one of the family's page."""
    kind, _, what = place.partition(": ")
    outline = kept(name)
    if kind == "notes":
        return what in [section.title for section in NOTES[name].sections]
    if kind == "values" and what:
        bounds = (outline.root, *(variant.bound for variant in outline.variants))
        return any(what in bound.cells or what in bound.absent for bound in bounds)
    if kind == "badge":
        return what in measurements.traits_of(families.rows()[name], measurements.measured(name), outline)
    return kind == "head" or kind in ids_of_the_page()


@pytest.mark.parametrize("name", TYPES)
def test_every_fact_is_stated_somewhere(name):
    for fact, stated, _ in table()[name]:
        places = re.findall(r"`((?:notes|values|badge): [^`]+|\w+)`", stated)
        assert places or stated.startswith("none: "), fact
        assert [place for place in places if not is_stated(name, place)] == [], fact


@cache
def functions_of(path: str) -> set[str]:
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", TYPES)
def test_every_fact_is_checked_or_reported(name):
    for fact, stated, checked in table()[name]:
        tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", checked)
        claims = re.findall(r"`claim:(\w+)`", checked)
        assert tests or claims or "reported" in checked, fact
        assert [test for path, test in tests if test not in functions_of(path)] == [], fact
        assert [one for one in claims if claim(name, one) is None or (name, one) not in CHECKED] == [], fact
        if "reported" in checked:
            assert is_reported(name, stated), fact


def is_reported(name: str, stated: str) -> bool:
    """Whether the section of the notes that states a fact has it from the first encyclopedia."""
    (title,) = re.findall(r"`notes: ([^`]+)`", stated)
    section = next(section for section in NOTES[name].sections if section.title == title)
    texts = [part for part in section.parts if hasattr(part, "mark") and part.mark is not None]
    return any(text.mark.how == "reported" and "the nnterp encyclopedia's page" in text.mark.by for text in texts)


# --- what the pages state as data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, title",
    [("apertus", "Apertus"), ("helium", "Helium"), ("exaone4", "EXAONE 4"), ("cohere2", "Command R7B and Command A")],
)
def test_heads(name, title):
    assert named(families.rows()[name], name)[0] == title


USUAL = {
    "logits": "the module model's output logits",
    "token_embeddings": "the module model.embed_tokens's output",
    "final_norm_output": "the module model.norm's output",
    "lm_head_output": "the module lm_head's output",
    "next_token_probs": "computed from logits",
    "input_ids": "the module model's input input_ids",
    "attention_mask": "the module model's input attention_mask",
    "input_size": "computed from input_ids",
    "block.layer_input": "the module block's input",
    "block.attention_norm_output": "the module input_layernorm's output",
    "block.layer_mid": "the module post_attention_layernorm's input",
    "block.mlp_norm_output": "the module post_attention_layernorm's output",
    "block.mlp_input": "the module mlp's input",
    "block.layer_output": "the module block's output",
    "self_attn.attention_queries": "inside the attention call: its queries",
    "self_attn.attention_keys": "inside the attention call: its keys",
    "self_attn.attention_values": "inside the attention call: its values",
    "self_attn.attention_scores": "inside the attention call: its scores",
    "self_attn.attention_probabilities": "inside the attention call: its probabilities",
    "self_attn.attention_head_outputs": "inside the attention call: its output",
    "self_attn.attention_premix": "the module self_attn.o_proj's input",
    "self_attn.attention_output": "the module self_attn's output",
    "mlp.mlp_activation": "the module mlp.act_fn's output",
    "mlp.mlp_neurons": "the module mlp.down_proj's input",
    "mlp.mlp_output": "the module mlp's output",
}
PLACES = {
    "helium": USUAL,
    "apertus": USUAL
    | {
        "block.attention_norm_output": "the module attention_layernorm's output",
        "block.layer_mid": "the module feedforward_layernorm's input",
        "block.mlp_norm_output": "the module feedforward_layernorm's output",
    },
    "exaone4": USUAL
    | {
        "block.attention_norm_output": "",
        "block.mlp_norm_output": "",
        "block.layer_mid": "the module mlp's input",
        "self_attn.attention_output": "the module post_attention_layernorm's output",
        "mlp.mlp_output": "the module post_feedforward_layernorm's output",
    },
    "cohere2": USUAL | {"block.layer_mid": "", "block.mlp_norm_output": "the module input_layernorm's output"},
}


@pytest.mark.parametrize("name", TYPES)
def test_places(name):
    rows = tiny(name, "sdpa").support().rows
    assert {key: rows[key].place for key in PAGE} == PLACES[name]


PRINTED = {
    "apertus": """
        ApertusForCausalLM(
        (embed_tokens): Embedding(131072, 4096, padding_idx=3)
        (0-31): 32 x ApertusDecoderLayer(
        (self_attn): ApertusAttention(
        (q_proj): Linear(in_features=4096, out_features=4096, bias=False)
        (k_proj): Linear(in_features=4096, out_features=1024, bias=False)
        (v_proj): Linear(in_features=4096, out_features=1024, bias=False)
        (o_proj): Linear(in_features=4096, out_features=4096, bias=False)
        (q_norm): ApertusRMSNorm((128,), eps=1e-05)
        (k_norm): ApertusRMSNorm((128,), eps=1e-05)
        (mlp): ApertusMLP(
        (up_proj): Linear(in_features=4096, out_features=21504, bias=False)
        (down_proj): Linear(in_features=21504, out_features=4096, bias=False)
        (act_fn): XIELUActivation()
        input_layernorm/attention_layernorm): ApertusRMSNorm((4096,), eps=1e-05)
        post_attention_layernorm/feedforward_layernorm): ApertusRMSNorm((4096,), eps=1e-05)
        (norm): ApertusRMSNorm((4096,), eps=1e-05)
        (lm_head): Linear(in_features=4096, out_features=131072, bias=False)""",
    "helium": """
        HeliumForCausalLM(
        (embed_tokens): Embedding(48000, 2560, padding_idx=3)
        (0-23): 24 x HeliumDecoderLayer(
        (self_attn): HeliumAttention(
        (q_proj): Linear(in_features=2560, out_features=2560, bias=False)
        (k_proj): Linear(in_features=2560, out_features=2560, bias=False)
        (v_proj): Linear(in_features=2560, out_features=2560, bias=False)
        (o_proj): Linear(in_features=2560, out_features=2560, bias=False)
        (mlp): HeliumMLP(
        (gate_proj): Linear(in_features=2560, out_features=7040, bias=False)
        (up_proj): Linear(in_features=2560, out_features=7040, bias=False)
        (down_proj): Linear(in_features=7040, out_features=2560, bias=False)
        (act_fn): SiLUActivation()
        input_layernorm): HeliumRMSNorm((2560,), eps=1e-08)
        post_attention_layernorm): HeliumRMSNorm((2560,), eps=1e-08)
        (norm): HeliumRMSNorm((2560,), eps=1e-08)
        (lm_head): Linear(in_features=2560, out_features=48000, bias=False)""",
    "exaone4": """
        Exaone4ForCausalLM(
        (embed_tokens): Embedding(102400, 2048, padding_idx=0)
        (0-29): 30 x Exaone4DecoderLayer(
        (self_attn): Exaone4Attention(
        (q_proj): Linear(in_features=2048, out_features=2048, bias=False)
        (k_proj): Linear(in_features=2048, out_features=512, bias=False)
        (v_proj): Linear(in_features=2048, out_features=512, bias=False)
        (o_proj): Linear(in_features=2048, out_features=2048, bias=False)
        (q_norm): Exaone4RMSNorm((64,), eps=1e-05)
        (k_norm): Exaone4RMSNorm((64,), eps=1e-05)
        (mlp): Exaone4MLP(
        (gate_proj): Linear(in_features=2048, out_features=4096, bias=False)
        (up_proj): Linear(in_features=2048, out_features=4096, bias=False)
        (down_proj): Linear(in_features=4096, out_features=2048, bias=False)
        (act_fn): SiLUActivation()
        post_attention_layernorm): Exaone4RMSNorm((2048,), eps=1e-05)
        post_feedforward_layernorm): Exaone4RMSNorm((2048,), eps=1e-05)
        (attention_norm_output): not available:
        (mlp_norm_output): not available:
        (norm): Exaone4RMSNorm((2048,), eps=1e-05)
        (lm_head): Linear(in_features=2048, out_features=102400, bias=False)""",
    "cohere2": """
        Cohere2ForCausalLM(
        (embed_tokens): Embedding(256000, 4096, padding_idx=0)
        (0-31): 32 x Cohere2DecoderLayer(
        (self_attn): Cohere2Attention(
        (q_proj): Linear(in_features=4096, out_features=4096, bias=False)
        (k_proj): Linear(in_features=4096, out_features=1024, bias=False)
        (v_proj): Linear(in_features=4096, out_features=1024, bias=False)
        (o_proj): Linear(in_features=4096, out_features=4096, bias=False)
        (mlp): Cohere2MLP(
        (gate_proj): Linear(in_features=4096, out_features=14336, bias=False)
        (up_proj): Linear(in_features=4096, out_features=14336, bias=False)
        (down_proj): Linear(in_features=14336, out_features=4096, bias=False)
        (act_fn): SiLUActivation()
        input_layernorm): Cohere2LayerNorm()
        (layer_mid): not available:
        (norm): Cohere2LayerNorm()
        (lm_head): Linear(in_features=4096, out_features=256000, bias=False)""",
}


@pytest.mark.parametrize("name", TYPES)
def test_printout(name):
    printed = "\n".join(kept(name).printout)
    assert [line.strip() for line in PRINTED[name].strip().splitlines() if line.strip() not in printed] == []


@pytest.mark.parametrize("name", TYPES)
def test_nothing_is_added_to_the_tree(name):
    model = tiny(name, "sdpa")
    assert [part for part, _ in model._module.named_children()] == ["model", "lm_head"]
    assert "generator" not in repr(model)
    assert not hasattr(model._module, "generator")


SIZES = {
    "apertus": dict(
        num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, qk_head_dim=128, vocab_size=131072,
        intermediate_size=21504,
    ),
    "helium": dict(
        num_layers=24, hidden_size=2560, num_heads=20, num_kv_heads=20, head_dim=128, qk_head_dim=128, vocab_size=48000,
        intermediate_size=7040,
    ),
    "exaone4": dict(
        num_layers=30, hidden_size=2048, num_heads=32, num_kv_heads=8, head_dim=64, qk_head_dim=64, vocab_size=102400,
        intermediate_size=4096,
    ),
    "cohere2": dict(
        num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, qk_head_dim=128, vocab_size=256000,
        intermediate_size=14336,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_sizes(name):
    """As the page keeps them, and as a model of that configuration answers for itself."""
    config, checkpoint = configuration(name, flagship(name))
    with torch.device("meta"):
        model = nnatlas.load(config)
    assert {size: getattr(model, size) for size in SIZES[name]} == SIZES[name]
    assert {size: kept(name).root.sizes[size] for size in SIZES[name]} == SIZES[name]
    assert checkpoint == kept(name).checkpoint


CONFIG = {
    "apertus": dict(
        num_hidden_layers=32, hidden_size=4096, intermediate_size=21504, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=131072, max_position_embeddings=65536, hidden_act="xielu", rms_norm_eps=1e-5, tie_word_embeddings=False,
        dtype="bfloat16", attention_bias=False,
    ),
    "helium": dict(
        num_hidden_layers=24, hidden_size=2560, intermediate_size=7040, num_attention_heads=20, num_key_value_heads=20,
        head_dim=128, vocab_size=48000, max_position_embeddings=4096, hidden_act="silu", rms_norm_eps=1e-8,
        tie_word_embeddings=False, dtype="bfloat16", attention_bias=False,
    ),
    "exaone4": dict(
        num_hidden_layers=30, hidden_size=2048, intermediate_size=4096, num_attention_heads=32, num_key_value_heads=8,
        head_dim=64, vocab_size=102400, max_position_embeddings=65536, hidden_act="silu", rms_norm_eps=1e-5,
        tie_word_embeddings=True, dtype="bfloat16",
    ),
    "cohere2": dict(
        num_hidden_layers=32, hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, vocab_size=256000, max_position_embeddings=8192, sliding_window=4096, hidden_act="silu",
        layer_norm_eps=1e-5, tie_word_embeddings=True, dtype="bfloat16", attention_bias=False, logit_scale=0.25,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_config(name):
    shown = kept(name).config
    assert {field: shown.get(field) for field in CONFIG[name]} == CONFIG[name]
