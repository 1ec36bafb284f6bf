"""Point 7: however a run ends, the model is as before, nothing is kept, and the next run works."""

from __future__ import annotations

import asyncio
import gc
import traceback

import pytest
import torch
from tests.tiny_models import IDS, left_alone, plain, tiny

from nnatlas.errors import AlreadyRan, NotInRun


def works(model):
    with model.trace(IDS):
        found = model.layers[1].self_attn.attention_probabilities
    return torch.allclose(found.sum(-1), torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", ["attention_scores", "attention_premix"])
def test_an_exception_in_the_body(error, where):
    model = tiny()
    with left_alone(model):
        with pytest.raises(error, match="mine"), model.trace(IDS):
            getattr(model.layers[1].self_attn, where)
            raise error("mine")
        assert works(model)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, AttributeError])
@pytest.mark.parametrize("model_type", ["llama", "falcon", "bloom"])
def test_an_exception_in_the_forward_comes_out_at_the_waiting_line(error, model_type):
    model = tiny(model_type)

    def the_models_own_code(*_):
        raise error("from inside")

    with left_alone(model):
        handle = model.layers[2].self_attn._module.register_forward_pre_hook(the_models_own_code)
        try:
            with model.trace(IDS) as run:
                model.layers[2].layer_input
                with pytest.raises(error, match="from inside") as caught:
                    model.layers[2].self_attn.attention_probabilities
                assert "the_models_own_code" in "".join(traceback.format_tb(caught.tb))
                with pytest.raises(AlreadyRan, match=f"{error.__name__}: from inside"):
                    model.layers[3].layer_output
                assert run.output is None
            with pytest.raises(error, match="from inside"), model.trace(IDS):
                model.layers[0].layer_output  # it comes when the rest of the forward runs
        finally:
            handle.remove()
        assert works(model)


def test_stop_abandons_the_rest():
    model, calls = tiny(), []
    handle = model.layers[3]._module.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        with model.trace(IDS) as run:
            model.layers[1].self_attn.attention_probabilities
            with torch.no_grad():
                run.stop()
                assert not torch.is_grad_enabled()
            assert torch.is_grad_enabled()
            with pytest.raises(AlreadyRan, match="stop"):
                model.layers[2].layer_output
    finally:
        handle.remove()
    assert calls == []
    assert run.output is None
    with left_alone(model):
        assert works(model)


def test_the_forwards_own_finally_blocks_run():
    model, order = tiny(), []
    block = model.layers[1]._module
    original = type(block).forward

    def forward(self, *args, **kwargs):
        with torch.no_grad():
            try:
                return original(self, *args, **kwargs)
            finally:
                order.append("unwound")

    block.forward = forward.__get__(block)
    try:
        with model.trace(IDS) as run:
            model.layers[1].mlp.mlp_output
            run.stop()
            assert order == ["unwound"]
            assert torch.is_grad_enabled()
    finally:
        del block.forward


def test_reading_after_before_and_without():
    model = tiny()
    run = model.trace(IDS)
    with pytest.raises(NotInRun, match="not open yet"):
        run.layers[0].layer_output
    with run:
        run.layers[0].layer_output
        with pytest.raises(NotInRun, match="opened once"):
            run.__enter__()
    with pytest.raises(NotInRun, match="over"):
        run.layers[0].layer_output
    with pytest.raises(NotInRun, match="opened once"), run:
        pass
    with pytest.raises(NotInRun, match="only while a run is open"):
        model.layers[0].layer_output
    assert run.output.logits.shape == (1, 6, model.vocab_size)
    assert "over" in repr(run)


def test_a_run_in_which_nothing_is_asked():
    model = tiny()
    with left_alone(model), model.trace(IDS) as run:
        pass
    assert torch.equal(run.output.logits, model._module(IDS).logits)


def test_a_body_that_is_a_generator():
    model = tiny()

    def layers():
        with model.trace(IDS):
            for layer in model.layers:
                yield layer.layer_output

    with left_alone(model):
        assert len(list(layers())) == model.num_layers
        some = layers()
        next(some)
        some.close()
        other = layers()
        next(other)
        del other
        gc.collect()
        assert works(model)


def test_a_body_that_awaits():
    model = tiny()

    async def one(ids):
        with model.trace(ids) as run:
            found = []
            for layer in run.layers:
                found.append(layer.layer_output)
                await asyncio.sleep(0)
        return found

    async def both():
        return await asyncio.gather(one(IDS), one(IDS.flip(1)))

    with left_alone(model):
        first, second = asyncio.run(both())
    assert torch.equal(first[2], plain(model, IDS, {"x": model.layers[2]._module})["x"])
    assert torch.equal(second[2], plain(model, IDS.flip(1), {"x": model.layers[2]._module})["x"])


def test_code_without_a_file():
    model, names = tiny(), {}
    exec(
        "with model.trace(ids) as run:\n    x = [layer.layer_output for layer in model.layers]\n    y = run.logits",
        {"model": model, "ids": IDS},
        names,
    )
    assert len(names["x"]) == model.num_layers
    assert torch.equal(names["y"], model._module(IDS).logits)


def test_unrelated_traces_and_prints_between_change_nothing():
    """T1 of the public cases."""
    model, found = tiny(), []
    for _ in range(2):
        with model.trace(IDS):
            found.append([layer.layer_output for layer in model.layers])
            for row in torch.stack(found[-1])[:2]:
                str(row)
        with model.trace(IDS.flip(1)):
            str(model), repr(model.layers[1]), dir(model.layers[1].self_attn)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
