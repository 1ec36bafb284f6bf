"""500 random programs, each against plain PyTorch hooks; after each the model and the thread are as before."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engine.programs import (
    FAILED,
    LATE,
    MODES,
    Program,
    Visit,
    by_hook,
    execute,
    interleave,
    oracle,
    places,
    visiting,
)
from tests.engine.test_generation import CACHE, GREEDY
from tests.tiny_models import IDS, OTHER, hooks_of, left_alone, tiny
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TYPES = ["llama", "gpt2", "granite", "falcon"]
TIMES = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["read", "scale", "slice", "assign", "fill"]), TIMES), min_size=1, max_size=3
)


@st.composite
def visits(draw, model_type: str, nesting: bool = True):
    """Mostly in order, at times not; now and then with another run inside."""
    last = len(places(model_type)) - 1
    found = sorted(draw(st.lists(st.integers(0, last), max_size=6)))
    if found and draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), draw(st.integers(0, last)))
    result = []
    for at in found:
        visit = Visit(at, draw(ACTIONS), draw(st.sampled_from(sorted(MODES))))
        if nesting and draw(st.integers(0, 7)) == 0:
            visit.inner, visit.mode = draw(programs(nesting=False)), "none"  # a run keeps the mode it is opened in
            visit.actions = [*visit.actions, ("nest", 0.0)]
        result.append(visit)
    return result


@st.composite
def programs(draw, nesting: bool = True):
    model_type = draw(st.sampled_from(TYPES))
    ends = draw(st.sampled_from(["normal", "normal", "normal", "body", "stop", "forward"]))
    return Program(
        model_type,
        draw(st.sampled_from([IDS, OTHER, OTHER[:, :3], torch.cat([IDS, OTHER])])),
        draw(
            visits(model_type, nesting and ends != "forward")
        ),  # the failing hook would be on the inner run's model too
        ends,
        draw(st.integers(0, len(places(model_type)) - 1)),
        draw(st.booleans()),
    )


def agrees(program: Program) -> None:
    answers, logits = oracle(program)
    assert len(program.answers) == len(answers)
    for got, expected in zip(program.answers, answers, strict=True):
        if expected in (LATE, FAILED):
            assert got == expected
        else:
            for one, other in zip(got, expected, strict=True):
                torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    if logits is not None:
        torch.testing.assert_close(program.logits, logits, atol=1e-3, rtol=1e-3)
    else:
        assert program.logits is None
    for visit in program.visits:
        if visit.inner is not None and visit.inner.answers:
            agrees(visit.inner)


def fingerprint(model):
    """Every weight's storage and how often it was written into; hooks, functions, modes."""
    weights = [(tensor.data_ptr(), tensor._version) for tensor in model._module.state_dict(keep_vars=True).values()]
    functions = dict(ALL_ATTENTION_FUNCTIONS._local_mapping)
    modes = (torch._C._len_torch_function_stack(), torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    return weights, len(hooks_of(model._module)), functions, modes, torch.is_autocast_enabled("cpu"), model._owner.runs


@cache
def fresh():
    """The models as they were before the first program."""
    return {model_type: fingerprint(tiny(model_type)) for model_type in TYPES}


def as_before() -> None:
    for model_type in TYPES:
        assert fingerprint(tiny(model_type)) == fresh()[model_type]


@pytest.fixture(autouse=True)
def bit_identical():
    """Over a whole test, the weights themselves."""
    fresh()
    with ExitStack() as stack:
        for model_type in TYPES:
            stack.enter_context(left_alone(tiny(model_type)))
        yield


QUICK = {"suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}

WRITTEN_AFTER_INFERENCE = Program(
    "granite", IDS, [Visit(2, [("read", 0.0)], "inference"), Visit(2, [("scale", -1.0)], "autocast")], grad=False
)
INSIDE_WHAT_FAILS = Program("llama", IDS, [Visit(0, [("read", 0.0)]), Visit(1, [("read", 0.0)])], "forward", fails_at=2)


@settings(max_examples=300, **QUICK)
@given(program=programs())
@example(program=INSIDE_WHAT_FAILS)
@example(program=WRITTEN_AFTER_INFERENCE)
def test_programs(program):
    as_before()
    execute(program)
    as_before()
    agrees(program)


@settings(max_examples=100, **QUICK)
@given(first=programs(), second=programs(), turns=st.lists(st.booleans(), max_size=14))
def test_programs_side_by_side(first, second, turns):
    for program in (first, second):
        program.ends = (
            "normal" if program.ends == "forward" else program.ends
        )  # its hook would be on the other's model too
        program.grad = True  # opening the second inside the first shares the thread's mode
    interleave(first, second, turns)
    as_before()
    agrees(first)
    agrees(second)


@settings(max_examples=100, **QUICK)
@given(data=st.data())
def test_generations(data):
    """Every step has visits of its own; the ids are those of a loop written by hand with plain hooks."""
    model_type = data.draw(st.sampled_from(TYPES))
    model, count = tiny(model_type), 3
    plans = [data.draw(visits(model_type, nesting=False)) for _ in range(count)]
    stop = data.draw(st.one_of(st.none(), st.integers(0, count - 1)))
    got = []
    with model.generate(IDS, **{**GREEDY, "max_new_tokens": count}) as run:
        for step in run.steps():
            program = Program(model_type, IDS, plans[step])
            got.append([visiting(run, program, visit) for visit in plans[step]])
            if step == stop:
                run.stop()
    as_before()
    fed, cache, ids = IDS, None, IDS
    for step in range(count if stop is None else stop + 1):
        cache, fed, answers = one_step(model, fed, cache, Program(model_type, fed, plans[step]))
        ids = torch.cat([ids, fed], 1)
        for one, other in zip(got[step], answers, strict=True):
            assert one == other if isinstance(one, str) or isinstance(other, str) else close(one, other)
    assert run.output is None if stop is not None else torch.equal(run.output, ids)


def close(one, other):
    return all(torch.allclose(a, b, atol=1e-3) for a, b in zip(one, other, strict=True))


def one_step(model, fed, cache, program):
    """One forward of a loop written by hand: the cache, the next token, and what every visit answers."""
    keywords = {} if cache is None else {CACHE: cache}
    answers, output = by_hook(program, lambda: model._module(fed, use_cache=True, logits_to_keep=1, **keywords))
    return output.past_key_values, output.logits[:, -1:].argmax(-1), answers
