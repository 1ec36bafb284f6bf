"""Several threads on one model: each call and run is its own, whatever the others put on the modules meanwhile."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.tiny_models import IDS, OTHER, left_alone, tiny

from nnatlas.engine.inputs import Preparer

FAMILIES = {  # one of every way to look inside
    "llama": "self_attn.attention_probabilities",
    "bloom": "self_attn.attention_scores",
    "gpt2": "mlp.mlp_activation",
    "gpt_oss": "mlp.expert_weights",
    "mixtral": "mlp.router_logits",
    "qwen3_next": "linear_attn.attention_premix",
    "mamba2": "linear_attn.time_steps",
    "apex1": "self_attn.attention_queries",
}


@pytest.fixture
def hurried():
    """Threads take turns as often as Python lets them, so that a race is lost in a few calls instead of in thousands."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def halve(value, call):
    return value * 0.5


class Interrupted(Preparer):
    """Prepares another thread's ids, as it were, whenever a mask is remembered."""

    other = True

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_full" and value is not None and self.other:
            self.other = False
            self(OTHER[:, :3], {})


def test_a_mask_is_the_one_of_its_own_ids():
    batch = Interrupted(tiny("llama")._module)(IDS, {})
    assert batch["attention_mask"].shape == batch["input_ids"].shape == IDS.shape


def in_threads(function, prompts):
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(function, prompts))


def differing(found, wanted, prompts):
    """How many answers are not what the prompt gives alone."""
    return sum(
        not torch.equal(one, other)
        for answers, ids in zip(found, prompts, strict=True)
        for one, other in zip(answers, wanted[id(ids)], strict=True)
    )


@pytest.mark.parametrize("model_type", FAMILIES)
def test_runs_in_several_threads_do_not_meet(model_type, hurried):
    model, prompts = tiny(model_type), [IDS, OTHER] * 8
    part, name = FAMILIES[model_type].split(".")

    def read(ids):
        with model.trace(ids):
            first = model.layers[0].layer_output.clone()
            model.layers[0].layer_output *= 1.5
            inside = next(getattr(getattr(block, part), name) for block in model.layers[1:] if has(block, part, name))
            return first, inside.clone(), model.logits.clone()

    wanted = {id(ids): read(ids) for ids in (IDS, OTHER)}
    with left_alone(model):
        assert differing(in_threads(read, prompts), wanted, prompts) == 0


@pytest.mark.parametrize("model_type", FAMILIES)
def test_calls_in_several_threads_are_edited_each(model_type, hurried):
    model, prompts = tiny(model_type), [IDS, OTHER] * 8
    part, name = FAMILIES[model_type].split(".")
    at = next(block for block in range(1, len(model.layers)) if has(model.layers[block], part, name))
    places = [f"layers.{at}.{part}.{name}", "layers.1.layer_output"]

    def call(ids):
        return (model._module(ids).logits,)

    with left_alone(model), model.editing(places, halve):
        wanted = {id(ids): call(ids) for ids in (IDS, OTHER)}
        assert differing(in_threads(call, prompts), wanted, prompts) == 0


def has(block, part, name):
    return part in block._host.parts and name in block._host.parts[part].values
