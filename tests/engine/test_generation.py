"""Generation: one step a forward, edits on every step, every way of decoding, and an end that always comes."""

from __future__ import annotations

import inspect

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny
from transformers import TextStreamer

from nnatlas.errors import NotInRun

CACHE = "cache" if "cache" in inspect.signature(tiny()._module.forward).parameters else "past_key_values"
GREEDY = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


def by_hand(model, ids, module, change, steps=4, positions=slice(None)):
    """Greedy decoding without a cache's help: a plain hook edits every step's own positions, one forward a token."""
    cache, fed, out = None, ids, ids
    for _ in range(steps):

        def hook(_, args, output):
            return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

        handle = module.register_forward_hook(hook)
        try:
            with torch.no_grad():
                answer = model._module(fed, **{} if cache is None else {CACHE: cache}, use_cache=True)
        finally:
            handle.remove()
        cache, fed = answer.past_key_values, answer.logits[:, -1:].argmax(-1)
        out = torch.cat([out, fed], 1)
    return out


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "bloom", "falcon", "mixtral", "gemma2"])
def test_edits_on_every_step_are_a_hand_written_loop(model_type):
    """G1 of the public cases: 4 steps of lengths 6, 1, 1, 1; the result has 10 ids; code after the loop runs."""
    model = tiny(model_type)
    block, lengths, after = model.layers[1]._module, [], []
    vector = torch.linspace(-3, 3, model.hidden_size)
    with left_alone(model), model.generate(IDS, **GREEDY) as run:
        for _ in run.steps():
            lengths.append(model.layers[1].layer_output.shape[1])
            model.layers[1].layer_output += vector
        after.append(run.step)
    assert lengths == [6, 1, 1, 1]
    assert after == [3]
    assert run.output.shape == (1, 10)
    assert torch.equal(run.output, by_hand(model, IDS, block, lambda x: x + vector))
    assert run.text == model.tokenizer.decode(run.output[0, 6:], skip_special_tokens=True)


@pytest.mark.parametrize("model_type", ["llama", "falcon", "bloom", "gpt2"])
def test_an_edit_of_the_keys_lasts_one_step(model_type):
    """The cache may hold the very tensor: in place and assigned are one, and neither is written into the cache."""
    model, results = tiny(model_type), []
    for assign in (False, True):
        with model.generate(IDS, **GREEDY) as run:
            keys = []
            for _ in run.steps():
                attention = model.layers[1].self_attn
                keys.append(attention.attention_keys.clone())
                if assign:
                    attention.attention_keys = attention.attention_keys * 1.5
                    attention.attention_values = attention.attention_values * 0.5
                else:
                    attention.attention_keys *= 1.5
                    attention.attention_values[:] *= 0.5
                results.append(model.logits)
        assert torch.allclose(keys[1][:, :, :6], keys[0], atol=1e-6), "the cached keys are those before the edit"
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(results[:4], results[4:], strict=True))


def test_leaving_the_loop_early_runs_the_rest():
    model = tiny()
    with left_alone(model), model.generate(IDS, **GREEDY) as run:
        for step in run.steps():
            if step == 1:
                break
        x = model.layers[2].layer_output
        assert x.shape[1] == 1
    assert run.output.shape == (1, 10)
    assert torch.equal(run.output, model._module.generate(IDS, **GREEDY))


def test_stop_in_the_loop():
    model = tiny()
    with left_alone(model), model.generate(IDS, **GREEDY) as run:
        for step in run.steps():
            model.layers[0].layer_output
            if step == 1:
                run.stop()
    assert run.output is None
    assert run.step == 1
    with pytest.raises(NotInRun, match="not finished"):
        run.text


def test_reading_before_the_loop_is_in_step_0():
    model = tiny()
    with model.generate(IDS, **GREEDY) as run:
        assert model.layers[0].layer_output.shape[1] == 6
        assert list(run.steps()) == [1, 2, 3]
    with model.generate(IDS, **GREEDY) as run:
        assert torch.equal(model.input_ids, IDS)
        assert [(step, model.input_size) for step in run.steps()] == [
            (0, [1, 6]),
            (1, [1, 1]),
            (2, [1, 1]),
            (3, [1, 1]),
        ]


def test_a_body_without_the_loop_and_one_that_reads_nothing():
    model = tiny()
    expected = model._module.generate(IDS, **GREEDY)
    with model.generate(IDS, **GREEDY) as run:
        model.layers[1].layer_output *= 1
    assert torch.equal(run.output, expected)
    with model.generate(IDS, **GREEDY) as run:
        assert sum(1 for _ in run.steps()) == 4
    assert torch.equal(run.output, expected)


def test_an_exception_in_a_step():
    model = tiny()
    with left_alone(model), pytest.raises(ValueError, match="mine"), model.generate(IDS, **GREEDY) as run:
        for _ in run.steps():
            model.layers[1].self_attn.attention_scores
            raise ValueError("mine")


WAYS = [
    {"num_beams": 2},
    {"do_sample": True, "top_k": 5},
    {"use_cache": False},
    {"num_return_sequences": 2, "do_sample": True},
    {"return_dict_in_generate": True, "output_scores": True},
    {"repetition_penalty": 1.3},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way))
def test_every_way_of_decoding(way):
    model = tiny()
    keywords = {**GREEDY, **way}
    torch.manual_seed(1)
    expected = model._module.generate(IDS, **keywords)
    torch.manual_seed(1)
    sizes = []
    with left_alone(model), model.generate(IDS, **keywords) as run:
        for _ in run.steps():
            model.layers[1].self_attn.attention_values
            sizes.append(list(model.layers[1].layer_output.shape[:2]))
    ids = getattr(run.output, "sequences", run.output)
    assert torch.equal(ids, getattr(expected, "sequences", expected))
    rows = way.get("num_beams", way.get("num_return_sequences", 1))
    assert all(size[0] == rows for size in sizes)
    assert [size[1] for size in sizes] == ([6, 7, 8, 9] if way.get("use_cache") is False else [6, 1, 1, 1])


def test_a_left_padded_batch_generates_what_each_row_does_alone():
    for model_type in ("llama", "gpt2", "opt", "bloom"):
        model = tiny(model_type)
        with model.generate([[7, 4, 9], IDS[0].tolist()], **GREEDY) as run:
            probs = [model.next_token_probs for _ in run.steps()]
        for row, prompt in enumerate(([7, 4, 9], IDS[0].tolist())):
            with model.generate([prompt], **GREEDY) as alone:
                single = [model.next_token_probs for _ in alone.steps()]
            assert torch.equal(run.output[row, 6:], alone.output[0, len(prompt) :]), model_type
            assert torch.allclose(probs[0][row], single[0][0], atol=1e-5)
    assert isinstance(run.text, list)
    assert len(run.text) == 2


def test_a_streamer_prints_as_it_goes(capsys):
    model = tiny()
    with model.generate("ab", streamer=TextStreamer(model.tokenizer), **GREEDY) as run:
        for _ in run.steps():
            model.layers[0].layer_output
    assert run.text in capsys.readouterr().out


def test_the_interior_in_every_step_and_prints_before():
    model = tiny()
    print(model)
    with model.generate(IDS, **GREEDY) as run:
        for step in run.steps():
            pattern = model.layers[2].self_attn.attention_probabilities
            assert pattern.shape == (1, 4, 6 if step == 0 else 1, 6 + step)
            assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)


def test_two_generations_side_by_side():
    model = tiny()
    with model.generate(IDS, **GREEDY) as a, model.generate(IDS.flip(1), **GREEDY) as b:
        for _ in zip(a.steps(), b.steps(), strict=True):
            b.layers[2].layer_output = b.layers[2].layer_output
            a.layers[2].layer_output
    assert torch.equal(a.output, model._module.generate(IDS, **GREEDY))
    assert torch.equal(b.output, model._module.generate(IDS.flip(1), **GREEDY))
