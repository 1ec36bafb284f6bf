"""No run leaves activations behind, with the garbage collector off: M1 of the public cases, and 1000 runs in a row."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest
import torch
from tests.tiny_models import IDS, tiny

from nnatlas.errors import AlreadyRan


def live_tensors():
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))


@pytest.fixture
def no_collector():
    gc.collect()
    gc.freeze()  # what is there already is not looked at again
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def plain_run(model):
    with model.trace(IDS):
        return model.layers[1].layer_output


def edited(model):
    with model.trace(IDS):
        model.layers[1].self_attn.attention_output[:, -1] *= 2
        model.layers[2].self_attn.attention_probabilities *= 0.5
        return model.next_token_probs


def stopped(model):
    with model.trace(IDS) as run:
        x = model.layers[1].self_attn.attention_scores
        run.stop()
    return x


def failed_in_the_body(model):
    try:
        with model.trace(IDS):
            model.layers[1].self_attn.attention_premix
            raise ValueError
    except ValueError:
        return


def failed_in_the_forward(model):
    def fail(*_):
        raise ValueError

    handle = model.layers[2]._module.register_forward_pre_hook(fail)
    try:
        with model.trace(IDS):
            model.layers[1].self_attn.attention_probabilities
            model.layers[3].layer_output
    except ValueError:
        return
    finally:
        handle.remove()


def asked_too_late(model):
    with model.trace(IDS):
        model.layers[2].layer_output
        try:
            model.layers[0].layer_output
        except AlreadyRan:
            return


def generated(model):
    with model.generate(IDS, max_new_tokens=2, do_sample=False, pad_token_id=0) as run:
        for _ in run.steps():
            model.layers[1].layer_output += 1
    return run.output


def collected(model):
    return model.collect(IDS, ["layers.*.layer_output", "layers.1.self_attn.attention_probabilities"])


def side_by_side(model):
    with model.trace(IDS) as a, model.trace(IDS) as b:
        b.layers[1].layer_output = a.layers[1].layer_output
        return b.layers[2].layer_output


RUNS = [
    plain_run, edited, stopped, failed_in_the_body, failed_in_the_forward, asked_too_late, generated, collected, side_by_side
]  # fmt: skip


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
@pytest.mark.parametrize("model_type", ["llama", "falcon"])
def test_live_tensors_are_flat_after_the_second_run(run, model_type, no_collector):
    model, counts = tiny(model_type), []
    for _ in range(6):
        kept = run(model)  # a result lives as long as the reader holds it, here until the next one
        counts.append(live_tensors())
    assert counts[2:] == [counts[1]] * 4, kept


def resident():
    """Bytes of memory in use by the process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the process's memory")
def test_many_runs_leave_nothing(no_collector):
    """Neither tensors, nor memory, nor a cycle that only the collector would find."""
    model = tiny()
    for _ in range(100):
        plain_run(model)
    gc.collect()  # what loading the model has left
    tensors, memory = live_tensors(), resident()
    for _ in range(300):
        plain_run(model)
    assert live_tensors() == tensors
    assert resident() - memory < 4_000_000
    assert gc.collect() == 0
