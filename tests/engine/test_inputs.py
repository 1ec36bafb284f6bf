"""Point 8: inputs of every form, keywords each where they belong, and errors that say what is wrong."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.tiny_models import IDS, tiny

from nnatlas.errors import InputError
from nnatlas.model import load

ROWS = [[5, 9, 2], [7, 4, 11, 3, 8]]


def ids_of(model, *inputs, **keywords):
    with model.trace(*inputs, **keywords) as run:
        found = model.input_ids
        run.stop()
    return found.tolist()


FORMS = [
    ("abc", [[257, 97, 98, 99]]),
    (["abc"], [[257, 97, 98, 99]]),
    (("a", "b"), [[257, 97], [257, 98]]),
    ([5, 6], [[5, 6]]),
    ((5, 6), [[5, 6]]),
    ([[5, 6], [7, 8]], [[5, 6], [7, 8]]),
    ([torch.tensor([5, 6]), torch.tensor([7, 8])], [[5, 6], [7, 8]]),
    ([torch.tensor(5), torch.tensor(6)], [[5, 6]]),
    (torch.tensor([5, 6]), [[5, 6]]),
    (torch.tensor([[5, 6]], dtype=torch.int32), [[5, 6]]),
    (np.array([5, 6]), [[5, 6]]),
    (range(5, 7), [[5, 6]]),
    ({"input_ids": [5, 6]}, [[5, 6]]),
    ({"input_ids": torch.tensor([5, 6]), "attention_mask": torch.tensor([1, 1])}, [[5, 6]]),
    ({"input_ids": torch.tensor([[5, 6]]), "token_type_ids": torch.tensor([[0, 0]])}, [[5, 6]]),
]


@pytest.mark.parametrize("given, expected", FORMS, ids=lambda value: type(value).__name__)
def test_every_form(given, expected):
    assert ids_of(tiny(), given) == expected


def test_by_keyword_alone():
    assert ids_of(tiny(), input_ids=torch.tensor([5, 6])) == [[5, 6]]
    assert ids_of(tiny(), input_ids=[[5, 6]], use_cache=False) == [[5, 6]]


def test_chat():
    model = tiny()
    talk = [{"role": "user", "content": "hi"}]
    shown = model.tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert ids_of(model, talk) == [model.tokenizer(shown, add_special_tokens=False).input_ids]
    assert len(ids_of(model, [talk, talk])) == 2
    assert ids_of(model, talk, add_generation_prompt=False)[0] == ids_of(model, talk)[0][: -len("assistant:\n")]


def test_keywords_go_where_they_belong():
    model = load("tiny:llama")  # of its own: transformers leaves hooks on a model once asked for hidden states
    assert ids_of(model, "ab", add_special_tokens=False) == [[97, 98]]
    assert ids_of(model, "abcdef", truncation=True, max_length=3) == [[257, 97, 98]]
    with model.trace(IDS, output_hidden_states=True, output_attentions=False) as run:
        second = model.layers[1].layer_input
    assert torch.equal(run.output.hidden_states[1], second)
    with model.trace(IDS, use_cache=False) as run:
        pass
    assert run.output.past_key_values is None
    with model.trace(IDS, logits_to_keep=2):
        assert model.logits.shape[1] == 2
        assert torch.allclose(model.next_token_probs, model.logits[:, -1].softmax(-1), atol=1e-6)
    with model.trace(IDS, labels=IDS) as run:
        pass
    assert run.output.loss.ndim == 0


def test_attentions_are_returned_where_they_are_configured():
    model = load("tiny:llama", attn_implementation="eager")
    with model.trace(IDS, output_attentions=True) as run:
        model.layers[1].self_attn.attention_probabilities = model.layers[1].self_attn.attention_probabilities * 0.5
    assert torch.allclose(run.output.attentions[1].sum(-1), torch.tensor(0.5), atol=1e-5)


def test_embeddings_instead_of_ids():
    model = tiny()
    embedded = model._module.get_input_embeddings()(IDS)
    with model.trace(inputs_embeds=embedded):
        assert model.input_size == [1, 6]
        found = model.logits
    assert torch.equal(found, model._module(IDS).logits)


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "opt", "bloom", "gemma2", "mixtral"])
def test_a_padded_batch_is_each_row_alone(model_type):
    model = tiny(model_type)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ids = torch.tensor([[0, 0, *ROWS[0]], ROWS[1]])
    for given in (ROWS, {"input_ids": ids, "attention_mask": mask}, {"input_ids": ROWS}):
        with model.trace(given):
            stream, probs = model.layers[1].layer_output, model.next_token_probs
        for row, prompt in enumerate(ROWS):
            with model.trace([prompt]):
                alone = model.layers[1].layer_output
                assert torch.allclose(stream[row, -len(prompt) :], alone[0], atol=1e-4)
                assert torch.allclose(probs[row], model.next_token_probs[0], atol=1e-5)


def test_right_padding_takes_each_rows_last_real_token():
    model = tiny()
    ids, mask = torch.tensor([[*ROWS[0], 0, 0], ROWS[1]]), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    with model.trace({"input_ids": ids, "attention_mask": mask}):
        probs = model.next_token_probs
    with model.trace([ROWS[0]]):
        assert torch.allclose(probs[0], model.next_token_probs[0], atol=1e-5)


def test_explicit_positions_win_and_a_keyword_wins_over_the_batch():
    model = tiny("gpt2")  # learned positions: a shift of all of them shows
    with model.trace(ROWS, position_ids=torch.arange(5).expand(2, 5)):
        shifted = model.logits
    with model.trace(ROWS):
        assert not torch.allclose(shifted[0, -1], model.logits[0, -1], atol=1e-4)
    given = {"input_ids": IDS, "use_cache": True}
    with model.trace(given, use_cache=False) as run:
        pass
    assert run.output.past_key_values is None


WRONG = [
    ([], "empty"),
    ("", "empty prompt"),
    (["a", ""], "empty prompt"),
    ("a\udcff", "bytes in it that are no letters"),
    ([[]], "empty"),
    ([[1], []], "empty"),
    (torch.empty(1, 0), "empty"),
    (torch.empty(0, 3, dtype=torch.long), "empty"),
    (torch.zeros(1, 2, 3, dtype=torch.long), r"\[1, 2, 3\]"),
    (torch.tensor([1.5]), "whole numbers.*float32"),
    (torch.tensor([True]), "whole numbers"),
    ([1.5], "1.5 is a float"),
    ([True], "True is a bool"),
    ([1, [2]], "mixed|list"),
    (["a", 3], "mixed"),
    ([99999], "id 99999 is not in the vocabulary: 0 to 319"),
    ([-1], "id -1"),
    (5, "cannot run this int"),
    ({"a"}, "cannot run this set"),
    (b"abc", "cannot run this bytes"),
    (
        {"input_ids": IDS, "attention_mask": torch.ones(1, 3)},
        r"the attention_mask is \[1, 3\] for an input of \[1, 6\]",
    ),
    ({"input_ids": IDS, "attention_mask": torch.ones(2, 6)}, r"the attention_mask is \[2, 6\]"),
    (None, "nothing to run"),
    ({}, "nothing to run"),
    ({"input_idz": [1]}, "input_idz.*near: input_ids"),
]


@pytest.mark.parametrize("given, said", WRONG, ids=repr)
def test_what_cannot_be_run(given, said):
    keywords = {"add_special_tokens": False} if isinstance(given, str) or given == ["a", ""] else {}
    for call in (tiny().trace, tiny().generate, lambda *a, **k: tiny().collect(*a, "logits", **k)):
        with pytest.raises(InputError, match=said):
            call(given, **keywords)


def test_unknown_keywords_name_their_neighbours():
    model = tiny()
    with pytest.raises(InputError, match=r"add_special_token'.*near: add_special_tokens"):
        model.trace("a", add_special_token=False)
    with pytest.raises(InputError, match=r"max_new_token'.*near: max_new_tokens"):
        model.generate("a", max_new_token=3)
    with pytest.raises(InputError, match="max_new_tokens"):
        model.trace("a", max_new_tokens=3)
    with pytest.raises(InputError, match="add_special_tokens is for the tokenizer"):
        model.trace([5], add_special_tokens=False)
    with pytest.raises(InputError, match="return_dict"):
        model.trace([5], return_dict=False)
    with pytest.raises(InputError, match="return_tensors"):
        model.trace("a", return_tensors="np")


def test_without_a_tokenizer():
    model = load(tiny()._module)
    with pytest.raises(InputError, match="without a tokenizer"):
        model.trace("a")
    assert ids_of(model, [3, 4]) == [[3, 4]]
    with model.generate([3, 4], max_new_tokens=2, do_sample=False) as run:
        pass
    assert run.text == [run.output[0, 2:].tolist()]


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
@pytest.mark.parametrize("rows", [[[3, 8]], [[8], [3, 8]]], ids=["one row", "padded"])
def test_a_cache_handed_in_is_attended_to(name, rows):
    model, ids = tiny(), torch.tensor([[5, 9, 2, 30]])
    with model.trace(ids.expand(len(rows), -1), use_cache=True) as run:
        pass
    with model.trace(rows, **{name: copy.deepcopy(run.output.past_key_values)}):
        size, logits = model.input_size, model.logits
    assert size == [len(rows), 2]
    for row, read in zip(rows, logits, strict=True):
        whole = torch.cat([ids, torch.tensor([row])], 1)
        torch.testing.assert_close(read[-len(row) :], model._module(whole).logits[0, 4:], atol=1e-4, rtol=1e-4)


def test_a_model_under_standard_names_assists_another():
    model, ways = tiny(), {"max_new_tokens": 6, "do_sample": False}
    with model.generate(IDS, assistant_model=load("tiny:llama"), **ways) as run:
        read = [model.layers[1].layer_output.shape[1] for _ in run.steps()]
    assert torch.equal(run.output, model._module.generate(IDS, **ways))
    assert sum(read) >= IDS.shape[1] + 5


@pytest.mark.parametrize("given", [IDS, [[7, 8, 9]]], ids=["tensor", "list"])
def test_a_model_of_shapes_alone(given):
    with torch.device("meta"):
        module = type(tiny()._module)(tiny().config)
    model = load(module)
    with model.trace(given):
        pattern, logits = model.layers[1].self_attn.attention_probabilities, model.logits
    length = logits.shape[1]
    assert pattern.shape == (1, model.num_heads, length, length) and logits.is_meta


def test_weights_that_are_kept_elsewhere():
    accelerate = pytest.importorskip("accelerate")
    model = tiny()
    module = copy.deepcopy(model._module)
    accelerate.cpu_offload(module, execution_device=torch.device("cpu"))
    assert module.get_input_embeddings().weight.is_meta
    away = load(module)
    wanted = ["layers.1.layer_output", "layers.1.self_attn.attention_probabilities", "logits"]
    here, there = model.collect(IDS, wanted), away.collect(IDS, wanted)
    assert away.device.type == "cpu" and all(torch.equal(here[name], there[name]) for name in wanted)
