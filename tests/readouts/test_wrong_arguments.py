"""What a caller can get wrong of any public function: an error of ours that names what was asked and what there is."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import tiny

from nnatlas import edits, patching, readouts
from nnatlas.errors import AtlasError, InputError, LayoutError

HI = "Hi there"
CALLS = {
    # readouts
    "length=0: give a whole number, 1 or more": lambda m: readouts.head_scores(m, length=0),
    "length='a': give a whole number": lambda m: readouts.head_scores(m, length="a"),
    "rows=0: give a whole number": lambda m: readouts.head_scores(m, rows=0),
    "these prompts have one token each": lambda m: readouts.head_scores(m, ""),
    "k=-1: give a whole number, 0 or more": lambda m: readouts.head_scores(m, length=2).top(-1),
    "layer 'a': layers are named by whole numbers": lambda m: readouts.attention_patterns(m, HI, "a"),
    "layer True: layers are named by whole numbers": lambda m: readouts.attention_patterns(m, HI, True),
    "layer 1.5: layers": lambda m: readouts.attention_patterns(m, HI, 1.5),
    "no layer is named": lambda m: readouts.attention_patterns(m, HI, []),
    "row 5 of 1": lambda m: readouts.attention_patterns(m, HI, 0).grid(5),
    "[] names no value": lambda m: readouts.logit_lens(m, HI, []),
    "3 names no value": lambda m: readouts.logit_lens(m, HI, 3),
    "k=1.5: give a whole number": lambda m: readouts.logit_lens(m, HI).top(1.5),
    "no token is named": lambda m: readouts.logit_lens(m, HI).rank([]),
    "layer 99 of 4 of this lens": lambda m: readouts.logit_lens(m, HI).logits_of(99),
    "position None": lambda m: readouts.logit_attribution(m, HI, position=None),
    "row 4 of 1": lambda m: readouts.logit_attribution(m, HI).top(3, row=4),
    "both 'A', so there is no difference": lambda m: readouts.logit_attribution(m, HI, "A", "A"),
    "layer 9 of 4": lambda m: readouts.patchscope(m, HI, layers=9),
    "layer 'b': layers": lambda m: readouts.patchscope(m, HI, layers="b"),
    "layer 2 was not read; there are 1": lambda m: readouts.patchscope(m, HI, layers=1, max_new_tokens=1)[2],
    "puts values into one text, not a list": lambda m: readouts.patchscope(m, HI, [HI, HI]),
    "the axes batch seq": lambda m: readouts.patchscope(m, HI, layers=1, value="self_attn.attention_scores"),
    "folds=1: give a whole number, 2 or more": lambda m: readouts.probe(m, ["a", "b"], [0, 1], folds=1),
    "2 prompts for 5 folds": lambda m: readouts.probe(m, ["a", "b"], [0.5, 1.5]),
    "this is one text": lambda m: readouts.probe(m, "ab", [0, 1]),
    "a label is a class": lambda m: readouts.probe(m, ["a", "b"] * 5, [[0], [1]] * 5),
    "steps=0: give a whole number": lambda m: readouts.train_tuned_lens(m, ["abc"], steps=0),
    "learning_rate=nan": lambda m: readouts.train_tuned_lens(m, ["abc"], learning_rate=float("nan")),
    "None is no path of a folder": lambda m: readouts.load_tuned_lens(m, None),
    # edits
    "3 names no value: give a name": lambda m: edits.ablate(m, 3),
    "seed 'a'": lambda m: edits.ablate(m, "layers.0.mlp.mlp_output", seed="a"),
    "layer 'c': layers": lambda m: edits.ablate_layers(m, "c"),
    "head 9 of 4 in layer 0": lambda m: edits.ablate_heads(m, {0: 9}),
    "routing is forced by layer": lambda m: edits.force_routing(m, [0, 1]),
    "scale=nan: give a finite number": lambda m: edits.steer(m, torch.ones(64), layers=1, scale=float("nan")),
    "scale='a': give a finite number": lambda m: edits.steer(m, torch.ones(64), layers=1, scale="a"),
    "holds what is not finite": lambda m: edits.steer(m, torch.full((64,), torch.inf), layers=1),
    "holds no numbers": lambda m: edits.steer(m, torch.ones(64, device="meta"), layers=1),
    "direction for layer 1 is [3]": lambda m: edits.steer(m, torch.ones(3), layers=1),
    "batch_size=0": lambda m: edits.steering_vector(m, ["a"], ["b"], batch_size=0),
    "no direction between them": lambda m: edits.steering_vector(m, ["a"], ["a"]),
    "name what is compared": lambda m: edits.continuations(m, HI, [None]),
    'continuations(model, prompt, {"plain": None': lambda m: edits.continuations(m, HI, {"x": 5}),
    "no continuation 'y'; there are x": lambda m: edits.continuations(m, HI, {"x": None}, max_new_tokens=1)["y"],
    "None is no path of a file": lambda m: edits.load(None, m),
    # patching
    "clean is 5 tokens": lambda m: patching.activation_patching(m, "cats", "dog"),
    "metric=5: give 'logit_difference'": lambda m: patching.activation_patching(m, "cat", "dog", metric=5),
    "'Paris' is 5 tokens": lambda m: patching.activation_patching(
        m, "cat", "dog", metric=patching.LogitDifference("Paris", "Rome")
    ),
    "token 1.5": lambda m: patching.activation_patching(m, "cat", "dog", metric=patching.Probability(1.5)),
    "over=5: name layer": lambda m: patching.activation_patching(m, "cat", "dog", over=5),
    "is no value of a block; there is layer_output": lambda m: patching.activation_patching(
        m, "cat", "dog", "layer_outputs"
    ),
    "steps=1.5: give a whole number": lambda m: patching.attribution_patching(m, "cat", "dog", steps=1.5),
    "has no gradient at the logits": lambda m: patching.attribution_patching(
        m, "cat", "dog", metric=lambda logits: logits.argmax(-1).float()
    ),
    "receivers=[]": lambda m: patching.path_patching(m, "cat", "dog", receivers=[]),
    "receivers=5": lambda m: patching.path_patching(m, "cat", "dog", receivers=5),
    "head 99 of 4 of layers.1.self_attn.attention_queries": lambda m: patching.path_patching(
        m, "cat", "dog", receivers=("layers.1.self_attn.attention_queries", 99)
    ),
    "compared with another sweep, not with a int": lambda m: patching.activation_patching(
        m, "cat", "dog", metric="kl"
    ).agreement(5),
}


@pytest.mark.parametrize("says", CALLS)
def test_it_is_said_what_was_asked_and_what_there_is(says):
    model = tiny("llama")
    with pytest.raises(AtlasError) as caught:
        CALLS[says](model)
    assert says in str(caught.value) and isinstance(caught.value, InputError | LayoutError)
    assert model.edits() == []


def test_numbers_of_numpy_and_torch_are_numbers():
    numpy = pytest.importorskip("numpy")
    model = tiny("llama")
    for number in (numpy.int64(1), torch.tensor(1)):
        assert list(readouts.attention_patterns(model, HI, number).patterns) == [1]
        assert readouts.head_scores(model, length=number).values.shape[0] == 3


def test_a_metric_may_be_named_by_its_class():
    model = tiny("llama")
    one, other = (patching.activation_patching(model, "cat", "dog", metric=one) for one in (patching.KLToClean, "kl"))
    assert torch.equal(one.values, other.values)
