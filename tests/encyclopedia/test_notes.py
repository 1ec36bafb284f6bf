"""The notes written by hand: every claim is run, every example works, every link leads somewhere, no family is forgotten."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.encyclopedia.claims import common
from tests.tiny_models import tiny

import nnatlas
from nnatlas import families
from nnatlas.encyclopedia import notes
from nnatlas.encyclopedia.flagships import flagship
from nnatlas.layouts import LAYOUTS
from nnatlas.traits import TRAITS
from nnatlas.values import RARE, VALUES

LISTED = (
    "apertus helium exaone4 cohere2 apex1 llama qwen3 gemma2 gemma3_text gemma3 gpt2 gpt_neox mixtral gpt_oss deepseek_v3"
    " olmo2 mamba2 qwen3_next"
).split()
NOTES = {model_type: notes.read(model_type) for model_type in notes.written()}


def claims_of(model_type: str) -> ModuleType:
    return importlib.import_module(f"tests.encyclopedia.claims.{model_type}")


def functions(module: ModuleType) -> dict[str, Callable[[Any], None]]:
    """The claims that a module defines: its functions that take one model and give nothing back."""
    return {name: one for name, one in vars(module).items() if inspect.isfunction(one) and is_claim(one, module)}


def is_claim(function: Callable[..., Any], module: ModuleType) -> bool:
    signature = inspect.signature(function)
    fits = set(signature.parameters) <= MODELS.keys() and signature.return_annotation == "None"
    return fits and function.__module__ == module.__name__


def claim(model_type: str, name: str) -> Callable[[Any], None] | None:
    """A claim by name: the family's own, or one that several share."""
    return functions(claims_of(model_type)).get(name) or functions(common).get(name)


@cache
def checkpoint(name: str) -> Any:
    return nnatlas.load(name)


def model_of(model_type: str) -> Any:
    """What claims and examples run on: the tiny model of the type, or the checkpoint that comes with nnatlas."""
    shown = flagship(model_type)
    return checkpoint(shown.checkpoint) if shown.folder else tiny(model_type)


MODELS: dict[str, Callable[[str], Any]] = {
    "model": model_of,
    "smollm2": lambda _: checkpoint("smollm2"),
}
"""What a claim may be run on, by the name of its argument."""

CHECKED = sorted({(kind, mark.by) for kind, note in NOTES.items() for mark in note.marks() if mark.how == "checked"})


def runs(model_type: str, name: str) -> Any:
    """A claim as a test's parameter, marked where it needs the pulled checkpoint."""
    function = claim(model_type, name)
    needs = set(inspect.signature(function).parameters) if function else set()
    return pytest.param(model_type, name, marks=[pytest.mark.real] if "smollm2" in needs else [])


EXAMPLES = [(kind, code) for kind, note in NOTES.items() for code in note.examples()]


@pytest.mark.parametrize("model_type, name", [runs(*one) for one in CHECKED])
def test_claim(model_type, name):
    function = claim(model_type, name)
    assert function is not None, f"notes/{model_type}.md: no claim {name!r} in its module of claims, nor in common.py"
    (parameter,) = inspect.signature(function).parameters
    function(MODELS[parameter](model_type))


@pytest.mark.parametrize(
    "model_type, code", [one for one in EXAMPLES if one[1].runs], ids=lambda one: getattr(one, "line", one)
)
def test_example(model_type, code):
    names = {"nnatlas": nnatlas, "torch": torch, "model": model_of(model_type)}
    exec(compile("\n" * code.line + code.code, f"notes/{model_type}.md", "exec"), names)


@pytest.mark.parametrize("model_type, code", [one for one in EXAMPLES if not one[1].runs])
def test_example_that_needs_a_checkpoint_is_python(model_type, code):
    compile("\n" * code.line + code.code, f"notes/{model_type}.md", "exec")


@pytest.mark.parametrize("model_type", NOTES)
def test_no_claim_is_left_unused(model_type):
    used = {name for kind, name in CHECKED if kind == model_type}
    assert set(functions(claims_of(model_type))) - used - helpers(model_type) == set()


def helpers(model_type: str) -> set[str]:
    """Functions that other claims of the module are made of."""
    module = claims_of(model_type)
    called = {name for one in functions(module).values() for name in inspect.unwrap(one).__code__.co_names}
    return called & set(functions(module))


def test_no_shared_claim_is_left_unused():
    by_name = {name for _, name in CHECKED}
    by_import = {name for kind in NOTES for name in vars(claims_of(kind))}
    within = {name for one in functions(common).values() for name in one.__code__.co_names}
    assert set(functions(common)) - by_name - by_import - within == set()


def test_every_listed_family_has_notes_and_no_other():
    assert sorted(LISTED) == sorted(NOTES)


@pytest.mark.parametrize("model_type", NOTES)
def test_notes_answer_the_same_questions_in_the_same_order(model_type):
    titles = [section.title for section in NOTES[model_type].sections]
    assert [title for title in titles if title in notes.SECTIONS] == list(notes.SECTIONS)
    assert len(set(titles)) == len(titles)
    assert all(section.parts for section in NOTES[model_type].sections)


@pytest.mark.parametrize("model_type", NOTES)
def test_links_lead_to_what_there_is(model_type):
    known = {
        "family": families.rows(),
        "value": VALUES | RARE,
        "layout": LAYOUTS,
        "trait": TRAITS,
    }
    assert [(kind, name) for kind, name in NOTES[model_type].links() if name not in known[kind]] == []


@pytest.mark.parametrize("model_type", NOTES)
def test_a_lead_leads_into_something(model_type):
    for section in NOTES[model_type].sections:
        for part, after in zip(section.parts, (*section.parts[1:], None), strict=True):
            if isinstance(part, notes.Text) and part.mark is None:
                assert after is not None and not isinstance(after, notes.Text), part.text


@pytest.mark.parametrize("model_type", NOTES)
def test_a_source_is_named_in_words(model_type):
    for mark in NOTES[model_type].marks():
        if mark.how == "reported":
            assert len(mark.by.split()) > 2, mark.by


@pytest.mark.parametrize("model_type", NOTES)
def test_most_of_what_is_said_is_checked(model_type):
    hows = [mark.how for mark in NOTES[model_type].marks()]
    assert hows.count("checked") > hows.count("reported")


# --- the claims themselves can fail ---------------------------------------------------------------------------------------

FALSE_OF = {
    "contributions_are_module_outputs": "gemma2",
    "contributions_sum": "mamba2",
    "pre_norms": "olmo2",
    "post_norms": "llama",
    "sandwich_norms": "llama",
    "absent_norms_say_why": "llama",
    "gated_mlp": "apertus",
    "norms_cast_before_the_gain": "helium",
    "norms_multiply_by_one_plus_weight": "llama",
    "rotary_of_halves": "helium",
    "position_0_is_not_turned": "deepseek_v3",
    "positions_are_relative": "gpt2",
    "heads_are_normed_alone": "olmo2",
    "no_query_or_key_norms": "qwen3",
    "scaled_slice_is_normed_away": "llama",
    "window_limits_sliding_blocks": "llama",
    "kv_heads_reach_their_group": "gpt2",
    "every_head_has_its_own_keys": "llama",
    "keys_and_values_before_repeating": "gpt2",
    "scores_are_scaled_by_head_width": "gemma2",
    "rows_sum_to_one": "gpt_oss",
    "interior_on_every_load": "gemma2",
    "no_biases": "gpt2",
    "logits_are_the_heads_output": "cohere2",
    "capped_logits": "llama",
    "embeddings_are_scaled_inside_their_module": "llama",
    "embeddings_enter_as_they_are": "gpt2",
    "tied_by_default": "llama",
    "untied_by_default": "gpt2",
    "dense_neurons_are_absent": "llama",
    "routing_can_be_forced": "llama",
    "experts_sum_to_the_routed_output": "llama",
}
"""Shared claims, each with a family that it is not true of."""


@pytest.mark.parametrize("name, model_type", FALSE_OF.items())
def test_a_shared_claim_fails_where_it_is_false(name, model_type):
    with pytest.raises((AssertionError, AttributeError, TypeError, ValueError)):
        functions(common)[name](model_of(model_type))


def test_what_a_note_does_not_name_is_noticed():
    assert claim("llama", "nobody_knows") is None
    assert claim("llama", "default") is None  # gives something back: a helper, and no claim
    assert claim("llama", "contributions_sum") is common.contributions_sum
