"""Points 2 and 3: a tap acts only in its own run, and each side has a thread state of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
import torch
from greenlet import getcurrent, greenlet
from tests.tiny_models import IDS, OTHER, hooks_of, left_alone, plain, tiny

from nnatlas.errors import NotInRun
from nnatlas.model import load

WORD = contextvars.ContextVar("WORD", default="unset")


def test_two_runs_side_by_side_on_one_module():
    model = tiny()
    block = model.layers[1]._module
    with model.trace(IDS) as a, model.trace(OTHER) as b:
        for i in range(model.num_layers):
            x, y = a.layers[i].layer_output, b.layers[i].layer_output
            if i == 1:
                first, second = x, y
        b.logits, a.logits
    assert torch.equal(first, plain(model, IDS, {"x": block})["x"])
    assert torch.equal(second, plain(model, OTHER, {"x": block})["x"])


def test_two_runs_inside_the_same_attention_call():
    model = tiny()
    alone = []
    for ids in (IDS, OTHER):
        with model.trace(ids):
            alone.append(model.layers[1].self_attn.attention_probabilities)
    with left_alone(model), model.trace(IDS) as a, model.trace(OTHER) as b:
        a.layers[1].self_attn.attention_queries
        b.layers[1].self_attn.attention_queries
        q = b.layers[1].self_attn.attention_probabilities
        p = a.layers[1].self_attn.attention_probabilities
        a.layers[1].layer_output, b.layers[1].layer_output
    assert torch.equal(p, alone[0])
    assert torch.equal(q, alone[1])


def test_a_patch_from_one_run_into_the_other():
    model = tiny()
    with model.trace(IDS) as clean, model.trace(OTHER) as corrupted:
        corrupted.layers[2].layer_output = clean.layers[2].layer_output
        logits, expected = corrupted.logits, clean.logits
    assert torch.allclose(logits, expected, atol=1e-5)


def test_a_run_inside_another_runs_body():
    model = tiny()
    with left_alone(model), model.trace(IDS):
        before = model.layers[1].self_attn.attention_queries
        with model.trace(OTHER):
            inner = model.layers[3].layer_output
        after = model.layers[3].layer_output
    assert torch.equal(inner, plain(model, OTHER, {"x": model.layers[3]._module})["x"])
    assert torch.equal(after, plain(model, IDS, {"x": model.layers[3]._module})["x"])
    assert before.shape[2] == 6


def test_a_plain_call_in_the_body_is_not_tapped():
    model = tiny()
    expected = model._module(OTHER).logits
    with model.trace(IDS) as run:
        model.layers[1].self_attn.attention_scores[:] = 0
        assert torch.equal(model._module(OTHER).logits, expected)
        assert torch.equal(model(OTHER).logits, expected)
        assert run._run.where() == "layers[1].self_attn.attention_scores"
        model.layers[1].layer_output
    assert torch.equal(model._module(OTHER).logits, expected)


def test_a_run_closed_before_one_that_was_opened_later():
    model = tiny()
    first, second = model.trace(IDS), model.trace(OTHER)
    first.__enter__()
    second.__enter__()
    x = first.layers[0].layer_output
    first.__exit__(None, None, None)
    y = model.layers[0].layer_output
    second.__exit__(None, None, None)
    assert not torch.equal(x, y)
    assert model._owner.runs == []


def test_the_bodys_gradient_mode_stays_its_own():
    model = tiny()
    with model.generate(IDS, max_new_tokens=2, do_sample=False) as run:
        for _ in run.steps():
            x = model.layers[1].layer_output
            assert torch.is_grad_enabled()
            assert (torch.ones(1, requires_grad=True) * x.sum()).requires_grad
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mode_around_a_read_does_not_reach_the_forward(mode):
    model = tiny()
    with model.trace(IDS):
        with mode():
            x = model.layers[0].layer_output
        assert not x.is_inference()
        x.requires_grad_()
        with mode():
            model.layers[1].layer_output
            assert torch.is_inference_mode_enabled() is (mode is torch.inference_mode)
        logits = model.logits
    assert logits.requires_grad
    assert torch.autograd.grad(logits.sum(), x)[0].abs().sum() > 0


def test_a_first_read_under_no_grad_leaves_the_forward_the_mode_it_was_opened_in():
    model = tiny()
    x = torch.zeros(1, 6, model.hidden_size, requires_grad=True)
    with model.trace(IDS):
        with torch.no_grad():
            model.layers[0].layer_input
        model.layers[0].layer_output = model.layers[0].layer_output + x
        logits = model.logits
    assert logits.requires_grad


def test_a_run_opened_in_a_mode_runs_in_it_whatever_the_body_does():
    model = tiny()
    with torch.inference_mode(), model.trace(IDS):
        with torch.inference_mode(False):
            assert model.layers[0].layer_output.is_inference()
        model.layers[1].layer_output *= 0.5
        halved = model.layers[2].layer_input.clone()
    assert not torch.is_inference_mode_enabled()
    assert torch.equal(halved, plain(model, IDS, {"x": model.layers[1]._module})["x"] * 0.5)


def test_autocast_in_the_body_does_not_reach_the_forward():
    model = tiny()
    with model.trace(IDS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert model.layers[1].mlp.down_proj.output.dtype == torch.float32
            assert torch.is_autocast_enabled("cpu")
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert not torch.is_autocast_enabled("cpu")
        assert model.logits.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16), model.trace(IDS), torch.autocast("cpu", enabled=False):
        assert model.layers[1].mlp.down_proj.output.dtype == torch.bfloat16


def test_function_modes_of_the_body_and_of_the_forward_do_not_meet():
    model = tiny()
    seen = []

    class Noticing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    with left_alone(model), model.trace(IDS):
        with Noticing():
            pattern = model.layers[1].self_attn.attention_probabilities
            model.layers[2].self_attn.attention_scores
            assert torch._C._len_torch_function_stack() == 1
            pattern.exp()
        model.layers[3].layer_output
    assert "softmax" not in seen
    assert "exp" in seen


def test_context_variables_are_copied_in():
    model, heard = tiny(), []
    handle = model._module.model.layers[1].register_forward_hook(lambda *_: heard.append(WORD.get()))
    token = WORD.set("outside")
    try:
        with model.trace(IDS):
            WORD.set("later")
            model.layers[2].layer_output
    finally:
        handle.remove()
        WORD.reset(token)
    assert heard == ["outside"]


def test_a_run_belongs_to_the_thread_that_opened_it():
    model, caught = tiny(), []

    def other() -> None:
        for read in (lambda: run.layers[0].layer_output, lambda: model.layers[0].layer_output):
            with pytest.raises(NotInRun) as error:
                read()
            caught.append(str(error.value))

    with model.trace(IDS) as run:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert model.layers[0].layer_output.shape == (1, 6, model.hidden_size)
    assert "thread" in caught[0]
    assert "only while a run is open" in caught[1]


def test_two_threads_each_with_runs_on_one_model():
    model = tiny()
    expected = {}
    for name, ids in (("a", IDS), ("b", OTHER)):
        with model.trace(ids):
            expected[name] = (model.layers[1].self_attn.attention_probabilities, model.layers[2].layer_output)
    wrong = []

    def work(name: str, ids: torch.Tensor) -> None:
        for _ in range(15):
            with model.trace(ids):
                pattern = model.layers[1].self_attn.attention_probabilities
                out = model.layers[2].layer_output
            if not (torch.equal(pattern, expected[name][0]) and torch.equal(out, expected[name][1])):
                wrong.append(name)

    with left_alone(model):
        threads = [threading.Thread(target=work, args=pair) for pair in (("a", IDS), ("b", OTHER))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_hook_inside_the_forward_cannot_read_from_its_own_run():
    model, caught = tiny(), []

    def hook(*_):
        with pytest.raises(NotInRun, match="own forward"):
            run.layers[3].layer_output
        caught.append(True)

    handle = model.layers[1]._module.register_forward_hook(hook)
    try:
        with model.trace(IDS) as run:
            model.layers[2].layer_output
    finally:
        handle.remove()
    assert caught == [True]


def _every_block(model, ids):
    """What `model.` has for one prompt, giving way to others before each block."""
    with model.trace(ids):
        for layer in model.layers:
            yield layer._path, layer.layer_output


def test_tasks_of_an_event_loop_have_runs_of_their_own():
    model = tiny()
    found = {}

    async def read(ids):
        for path, value in _every_block(model, ids):
            found[path, ids.shape[1]] = value
            await asyncio.sleep(0)

    async def helped():
        with model.trace(IDS):
            return await asyncio.create_task(_layer_output(model.layers[1]))

    async def both():
        await asyncio.gather(read(IDS), read(OTHER[:, :4]))
        return await helped()

    by_a_child = asyncio.run(both())
    for ids in (IDS, OTHER[:, :4]):
        alone = plain(model, ids, {layer._path: layer._module for layer in model.layers})
        assert all(torch.equal(found[layer._path, ids.shape[1]], alone[layer._path]) for layer in model.layers)
    assert torch.equal(by_a_child, found[model.layers[1]._path, IDS.shape[1]])


async def _layer_output(layer):
    return layer.layer_output


def test_greenlets_have_runs_of_their_own():
    model, found = tiny(), {}

    def read(ids):
        for path, value in _every_block(model, ids):
            found[path, ids.shape[1]] = value
            getcurrent().parent.switch()

    workers = [greenlet(read), greenlet(read)]
    arguments = [(IDS,), (OTHER[:, :4],)]
    while any(not worker.dead for worker in workers):
        for worker, given in zip(workers, arguments, strict=True):
            worker.switch(*given) if not worker.dead else None
        arguments = [(), ()]
    path = model.layers[2]._path
    for ids in (IDS, OTHER[:, :4]):
        assert torch.equal(found[path, ids.shape[1]], plain(model, ids, {path: model.layers[2]._module})[path])


@pytest.mark.parametrize("way", ["call", "failing call", "trace", "collect"])
@pytest.mark.parametrize("at", ["", "self_attn", "mlp"])
def test_the_model_called_by_a_hook_in_a_runs_forward(way, at):
    model, busy, inner = load("tiny:llama"), [], []
    wanted = plain(model, IDS, {"x": model.layers[2]._module})
    other = plain(model, OTHER[:, :4], {"x": model.layers[2]._module})["x"]

    def once(*_):
        if busy:
            return
        busy.append(True)
        if way == "trace":
            with model.trace(OTHER[:, :4]):
                inner.append(model.layers[2].layer_output)
        elif way == "collect":
            inner.append(model.collect(OTHER[:, :4], "layers.2.layer_output").layers[2].layer_output)
        elif way == "call":
            model._module(OTHER[:, :4])
        else:
            with pytest.raises(TypeError):
                model._module(OTHER[:, :4], no_such=True, position_ids="none")

    handle = model._module.get_submodule(f"model.layers.0.{at}".strip(".")).register_forward_hook(once)
    try:
        with model.trace(IDS):
            model.layers[0].mlp.mlp_neurons  # learns the order inside a block
            read, size, logits = model.layers[2].layer_output, model.input_size, model.logits
    finally:
        handle.remove()
    assert busy and size == list(IDS.shape)
    assert torch.equal(read, wanted["x"])
    assert torch.equal(logits, wanted["logits"])
    assert all(torch.equal(seen, other) for seen in inner)
    with model.trace(IDS):  # and what was learned of the order holds
        for layer in model.layers:
            layer.self_attn.attention_premix, layer.mlp.mlp_neurons, layer.layer_output


def test_a_run_that_another_thread_closes_leaves_nothing():
    model, raised = load("tiny:llama"), []
    reading = _every_block(model, IDS)
    next(reading)

    def close():
        try:
            reading.close()
        except BaseException as error:  # noqa: BLE001  a thread's own errors would be lost
            raised.append(error)

    with left_alone(tiny()):
        worker = threading.Thread(target=close)
        worker.start()
        worker.join()
    assert not raised and not model._owner.runs and not hooks_of(model._module)
    with model.trace(IDS):
        assert torch.equal(model.logits, model._module(IDS).logits)
