"""Patchscopes: the text that plain hooks and plain decoding give, one row a layer, and nothing changed where nothing is new."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import left_alone, tiny

from nnatlas.errors import InputError
from nnatlas.readouts import patchscope

SOURCE, TARGET = "The tower", "a -> a; ?"


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def by_hand(model, layer, into, at, into_at, count=5):
    """Greedy decoding without a cache, the vector put in by a plain hook in every forward."""
    source, target = (model._prepare(text, {})["input_ids"] for text in (SOURCE, TARGET))
    held = {}
    keep = lambda _, args, output: held.update(vector=output[0, at].clone())
    handle = model.layers[layer]._module.register_forward_hook(keep)
    with torch.no_grad():
        model._module(source)
    handle.remove()

    def put(_, args, output):
        output[0, into_at] = held["vector"]
        return output

    handle = model.layers[into]._module.register_forward_hook(put)
    ids, start = target, target.shape[1]
    with torch.no_grad():
        for _ in range(count):
            ids = torch.cat([ids, model._module(ids, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    handle.remove()
    return ids[0, start:]


def test_each_row_is_what_plain_hooks_give(model):
    with left_alone(model):
        found = patchscope(model, SOURCE, TARGET, max_new_tokens=5)
    assert found.layers == found.into == (0, 1, 2, 3)
    end = len(model._prepare(TARGET, {})["input_ids"][0]) - 1
    for row in range(4):
        torch.testing.assert_close(found.ids[row], by_hand(model, row, row, -1, end))
    assert len({tuple(row) for row in found.ids.tolist()}) > 1  # it does change what is said


def test_layers_and_positions_are_chosen(model):
    found = patchscope(model, SOURCE, TARGET, [3, 1], into=0, position=2, into_position=1, max_new_tokens=5)
    assert found.layers == (3, 1) and found.into == (0, 0)
    for row, layer in enumerate((3, 1)):
        torch.testing.assert_close(found.ids[row], by_hand(model, layer, 0, 2, 1))
    assert found[1] == found.texts[1]


def test_a_value_put_where_it_was_changes_nothing(model):
    with model.generate(TARGET, max_new_tokens=6, do_sample=False) as run:
        pass
    for value in ("layer_output", "mlp.mlp_output", "layer_input"):
        found = patchscope(model, TARGET, TARGET, 2, value=value, max_new_tokens=6)
        assert found.texts == (run.text,)


def test_probabilities_are_those_of_the_chosen_tokens(model):
    found = patchscope(model, TARGET, TARGET, 1, max_new_tokens=3)
    ids = torch.cat([model._prepare(TARGET, {})["input_ids"][0], found.ids[0]])
    with torch.no_grad():
        chances = model._module(ids[None]).logits[0].softmax(-1)
    start = len(ids) - 3
    expected = [chances[start + at - 1, found.ids[0, at]].item() for at in range(3)]
    assert found.probabilities[0].tolist() == pytest.approx(expected, rel=1e-3)
    grid = found.grid()
    assert grid.rows.labels == ("1",) and grid.text[0] == [model.tokenizer.decode([one]) for one in found.ids[0]]


def test_what_is_wrong_is_said(model):
    with pytest.raises(InputError, match="layer 4 of 4"):
        patchscope(model, SOURCE, TARGET, 4)
    with pytest.raises(InputError, match="layer 9 of 4"):
        patchscope(model, SOURCE, TARGET, 1, into=9)
    with pytest.raises(InputError, match="one source prompt, got 2"):
        patchscope(model, [SOURCE, "Hi"], TARGET, 1)
    with pytest.raises(InputError, match="position 50 of row 0, which has"):
        patchscope(model, SOURCE, TARGET, 1, into_position=50)
