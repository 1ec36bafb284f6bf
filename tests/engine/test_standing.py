"""Standing edits: the same as edits by hand in every forward, in their order, seen by reads, and gone without a trace."""

from __future__ import annotations

import copy
import gc
import weakref
from contextlib import ExitStack

import pytest
import torch
from tests.tiny_models import IDS, OTHER, hooks_of, left_alone, tiny

from nnatlas.errors import InputError, ReadOnly, Unavailable
from nnatlas.model import load

FAMILIES = ["llama", "gpt2", "gpt_neox", "mixtral", "exaone4", "cohere2", "bloom", "falcon", "gpt_oss", "mamba2",
            "deepseek_v3", "gemma2"]  # fmt: skip
GREEDY = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
PLACES = [
    "token_embeddings", "layers.1.layer_input", "layers.1.attention_norm_output", "layers.1.self_attn.attention_queries",
    "layers.1.self_attn.attention_values", "layers.1.self_attn.attention_scores",
    "layers.1.self_attn.attention_probabilities", "layers.1.self_attn.attention_head_outputs",
    "layers.1.self_attn.attention_premix", "layers.1.self_attn.attention_output", "layers.1.layer_mid",
    "layers.1.linear_attn.time_steps", "layers.1.linear_attn.attention_premix", "layers.1.mlp.router_logits",
    "layers.1.mlp.expert_weights", "layers.1.mlp.mlp_activation", "layers.1.mlp.mlp_neurons", "layers.1.mlp.mlp_output",
    "layers.1.layer_output", "final_norm_output", "lm_head_output", "logits",
]  # fmt: skip


def halve(value, call):
    return value * 0.5


def halve_in_place(value, call):
    value *= 0.5


def host_of(model, name):
    """The node that a value hangs on, and the value's own name."""
    node = model
    *path, value = name.split(".")
    for part in path:
        node = node[int(part)] if part.isdigit() else getattr(node, part)
    return node, value


def by_hand(model, name, ids):
    """Logits with the value halved in the body of a trace."""
    with model.trace(ids):
        node, value = host_of(model, name)
        setattr(node, value, getattr(node, value) * 0.5)
        return model.logits


def served(model, names):
    found = []
    for name in names:
        try:
            model.editing(name, halve)
        except (Unavailable, ReadOnly):
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("model_type", FAMILIES)
def test_at_every_place_it_is_the_edit_by_hand(model_type):
    """In a trace, in a call of the module, in place or returned: the same logits bit for bit."""
    model = tiny(model_type)
    names = served(model, PLACES)
    assert len(names) >= (8 if model_type == "mamba2" else 12)
    plain = model._module(IDS).logits
    for name in names:
        with left_alone(model):
            wanted = by_hand(model, name, IDS)
            assert not torch.equal(wanted, plain), name
            for function in (halve, halve_in_place):
                with model.editing(name, function):
                    with model.trace(IDS):
                        traced = model.logits
                    called = model._module(IDS).logits
                assert torch.equal(traced, wanted) and torch.equal(called, wanted), (name, function)
    assert torch.equal(model._module(IDS).logits, plain)


@pytest.mark.parametrize("model_type", [*FAMILIES[:11:2], "deepseek_v3"])
def test_generation_is_edited_at_every_step(model_type):
    """`model.generate`, transformers' own `generate`, and a loop of edits by hand write the same ids and logits."""
    model, vector = tiny(model_type), torch.linspace(-3, 3, tiny(model_type).hidden_size)
    with left_alone(model):
        with model.generate(IDS, **GREEDY) as plain:
            pass
        with model.generate(IDS, **GREEDY) as hand:
            wanted = []
            for _ in hand.steps():
                model.layers[1].layer_output = model.layers[1].layer_output + vector
                wanted.append(model.logits)
        with model.editing("layers.1.layer_output", lambda value, call: value + vector):
            with model.generate(IDS, **GREEDY) as run:
                logits = [model.logits for _ in run.steps()]
            with torch.no_grad():
                theirs = model._module.generate(IDS, attention_mask=torch.ones_like(IDS), **GREEDY)
    assert all(map(torch.equal, logits, wanted)) and len(logits) == 4
    assert torch.equal(run.output, hand.output) and torch.equal(theirs, hand.output)
    assert not torch.equal(plain.output, hand.output)


@pytest.mark.parametrize("name", ["layers.1.layer_output", "layers.1.self_attn.attention_scores", "layers.1.layer_input",
                                  "layers.1.self_attn.attention_probabilities"])  # fmt: skip
@pytest.mark.parametrize("model_type", ["llama", "bloom"])
def test_the_body_reads_the_value_after_the_edits_and_edits_on_top(model_type, name):
    model = tiny(model_type)
    with model.trace(IDS):
        node, value = host_of(model, name)
        before = getattr(node, value).clone()
    with left_alone(model):
        with model.editing(name, halve), model.trace(IDS):
            node, value = host_of(model, name)
            seen = getattr(node, value).clone()
            setattr(node, value, getattr(node, value) * 2)
            logits = model.logits
        with model.editing(name, halve), model.editing(name, lambda value, call: value * 2):
            wanted = model._module(IDS).logits
    assert torch.equal(seen, before * 0.5)
    assert torch.equal(logits, wanted)


@pytest.mark.parametrize(
    "name", ["layers.1.layer_output", "layers.1.self_attn.attention_queries", "layers.1.self_attn.attention_scores"]
)
@pytest.mark.parametrize("model_type", ["llama", "bloom", "gpt_oss"])
def test_several_edits_come_in_the_order_in_which_they_were_entered(model_type, name):
    """(x + 1) * 2 is not x * 2 + 1."""
    model = tiny(model_type)
    with model.trace(IDS):
        node, value = host_of(model, name)
        plain = getattr(node, value).clone()
    orders = []
    add, double = (lambda value, call: value + 1), (lambda value, call: value * 2)
    for first, second in ((add, double), (double, add)):
        with left_alone(model), model.editing(name, first), model.editing(name, second), model.trace(IDS):
            node, value = host_of(model, name)
            orders.append(getattr(node, value).clone())
    assert torch.equal(orders[0], (plain + 1) * 2) and torch.equal(orders[1], plain * 2 + 1)


def test_collect_sees_them_too():
    model = tiny()
    plain = model.collect(IDS, ["layers.2.self_attn.attention_output", "layers.2.layer_output"])
    with left_alone(model), model.editing("layers.2.self_attn.attention_output", halve):
        found = model.collect(IDS, ["layers.2.layer_output", "layers.2.self_attn.attention_output"])
    assert torch.equal(found["layers.2.self_attn.attention_output"], 0.5 * plain["layers.2.self_attn.attention_output"])
    assert not torch.equal(found["layers.2.layer_output"], plain["layers.2.layer_output"])


def test_a_pattern_is_all_blocks_that_have_the_value():
    model = tiny("mixtral")
    with left_alone(model):
        with model.editing("layers.*.mlp.mlp_output", lambda value, call: torch.zeros_like(value)) as edit:
            edited = model._module(IDS).logits
        with model.trace(IDS):
            for layer in model.layers:
                layer.mlp.mlp_output = 0
            wanted = model.logits
    assert edit.values == [f"layers.{i}.mlp.mlp_output" for i in range(model.num_layers)]
    assert torch.equal(edited, wanted)


# --- leaving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", [*FAMILIES, "apex-1"])
def test_an_exception_leaves_nothing(model_type):
    """Raised in the body, and raised by the edit itself in the middle of a forward, of every kind of call."""
    from nnatlas.model import load

    model = load(model_type) if model_type == "apex-1" else tiny(model_type)
    names = served(model, PLACES)
    plain = model._module(IDS).logits
    with left_alone(model):
        with pytest.raises(ZeroDivisionError), ExitStack() as stack:
            for name in names:
                stack.enter_context(model.editing(name, halve))
            model._module(IDS)
            raise ZeroDivisionError
        calls = (lambda: model._module(IDS), lambda: model.collect(IDS, "logits"), lambda: traced(model))
        for name in names:
            for call in calls:
                with pytest.raises(ZeroDivisionError), model.editing(name, lambda value, call: 1 / 0):
                    call()
    assert torch.equal(model._module(IDS).logits, plain)


def traced(model):
    with model.trace(IDS):
        return model.logits


def test_an_interrupted_call_is_tidied_up_by_the_next():
    """Ctrl-C is no Exception: PyTorch runs no hook then."""
    model, raised = tiny("bloom"), []
    names = ["layers.1.self_attn.attention_scores", "layers.1.layer_output"]

    def interrupt(value, call):
        if not raised:
            raised.append(1)
            raise KeyboardInterrupt

    wanted = by_hand(model, names[0], IDS)
    with left_alone(model), model.editing(names, interrupt), model.editing(names[0], halve):
        with pytest.raises(KeyboardInterrupt):
            model._module(IDS)
        assert torch.equal(model._module(IDS).logits, wanted)
        raised.clear()
        with pytest.raises(KeyboardInterrupt):
            model._module(IDS)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_they_may_be_left_in_any_order(order):
    model, names = tiny(), ["layers.1.layer_output", "layers.1.self_attn.attention_scores", "layers.1.layer_output"]
    with left_alone(model):
        edits = [model.editing(name, halve) for name in names]
        for edit in edits:
            edit.__enter__()
        assert model.edits() == edits
        left = list(edits)
        for at in order:
            edits[at].__exit__(None, None, None)
            left.remove(edits[at])
            assert model.edits() == left
            with ExitStack() as stack:
                got = model._module(IDS).logits
                for edit in left:
                    edit.__exit__(None, None, None)
                for edit in left:
                    stack.enter_context(edit)
                assert torch.equal(got, model._module(IDS).logits)
            for edit in left:
                edit.__enter__()
    assert model.edits() == [] and model._owner.standing is None


def test_nothing_is_on_the_model_while_nothing_stands_and_little_while_something_does():
    model = tiny()
    before = len(hooks_of(model._module))
    with model.editing("layers.1.layer_output", halve):
        assert len(hooks_of(model._module)) == before + 1  # one at the root: the rest comes with a forward
        model._module(IDS)
        assert len(hooks_of(model._module)) == before + 1
    assert len(hooks_of(model._module)) == before


def test_what_an_edit_holds_is_let_go():
    model, vector = tiny(), torch.ones(tiny().hidden_size)
    function = lambda value, call, vector=vector: value + vector
    held = weakref.ref(vector)
    with model.editing("layers.1.layer_output", function):
        model._module(IDS)
        with model.trace(IDS):
            pass
    del function, vector
    gc.collect()
    assert held() is None


# --- with runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["llama", "bloom", "gpt_oss"])
def test_runs_side_by_side_are_edited_each(model_type):
    """Two forwards halfway through the same block, one call of the module in between, all under one edit."""
    model, name = tiny(model_type), "layers.1.self_attn.attention_scores"
    wanted = {id(ids): by_hand(model, name, ids) for ids in (IDS, OTHER)}
    with left_alone(model), model.editing(name, halve), model.trace(IDS) as a, model.trace(OTHER) as b:
        a.layers[1].self_attn.attention_scores
        b.layers[1].self_attn.attention_scores
        called = model._module(OTHER).logits
        second, first = b.logits, a.logits
    assert torch.equal(first, wanted[id(IDS)]) and torch.equal(second, wanted[id(OTHER)])
    assert torch.equal(called, wanted[id(OTHER)])


@pytest.mark.parametrize("model_type", ["llama", "bloom"])
def test_entered_in_a_run_it_acts_on_what_is_still_to_come(model_type):
    model = tiny(model_type)
    names = ["layers.0.layer_output", "layers.2.self_attn.attention_scores", "layers.2.layer_output"]
    with model.trace(IDS):
        for name in names[1:]:
            node, value = host_of(model, name)
            setattr(node, value, getattr(node, value) * 0.5)
        wanted = model.logits
    with left_alone(model), model.trace(IDS):
        model.layers[1].layer_output
        with model.editing(names, halve):
            scores = model.layers[2].self_attn.attention_scores.clone()
            model.layers[2].layer_output
        logits = model.logits
    assert torch.equal(logits, wanted)
    with model.trace(IDS):
        model.layers[1].layer_output
        assert torch.equal(scores, model.layers[2].self_attn.attention_scores * 0.5)


def test_entered_for_some_steps_of_a_generation():
    model, vector = tiny(), torch.linspace(-5, 5, tiny().hidden_size)
    with model.generate(IDS, **GREEDY) as hand:
        for step in hand.steps():
            if step in (1, 3):
                model.layers[1].layer_output += vector
    told = []

    def add(value, call):
        told.append((call.past, call.seq, call.prompt, call.here(call.new).tolist(), call.numbers[0, -1].item()))
        return value + vector

    with left_alone(model), model.generate(IDS, **GREEDY) as run:
        for step in run.steps():
            if step in (1, 3):
                with model.editing("layers.1.layer_output", add):
                    model.layers[2].layer_output
    assert torch.equal(run.output, hand.output)
    assert told == [(6, 1, 0, [True], 6), (8, 1, 0, [True], 8)]


def test_the_call_says_what_it_reads():
    model, told = tiny(), []

    def tell(value, call):
        told.append((call.past, call.seq, call.prompt, call.real.tolist(), call.numbers.tolist(), call.here(call.new)))

    ids = torch.tensor([[0, 0, 5, 9], [5, 9, 2, 30]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    with model.editing("layers.1.layer_output", tell):
        for cached in (True, False):
            with model.generate({"input_ids": ids, "attention_mask": mask}, **GREEDY | {"max_new_tokens": 2},
                                use_cache=cached):  # fmt: skip
                pass
    first, cached, again, uncached = told
    real, numbers = [[False, False, True, True], [True] * 4], [[-1, -1, 0, 1], [0, 1, 2, 3]]
    assert first[:5] == again[:5] == (0, 4, 4, real, numbers) and not first[5].any()
    longer = [[*row, True] for row in real], [[-1, -1, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert cached[:5] == (4, 1, 4, *longer) and cached[5].tolist() == [True]
    assert uncached[:5] == (0, 5, 4, *longer) and uncached[5].tolist() == [False] * 4 + [True]


def test_gradients_reach_what_an_edit_adds():
    model, vector = tiny(), torch.zeros(tiny().hidden_size, requires_grad=True)
    with (
        left_alone(model),
        model.editing("layers.1.layer_output", lambda value, call: value + vector),
        model.trace(IDS),
    ):
        model.logits[0, -1, 3].backward()
    assert vector.grad is not None and float(vector.grad.abs().sum()) > 0


def test_models_do_not_mix():
    first, second = tiny("llama"), tiny("gpt2")
    plain = second._module(IDS).logits
    with left_alone(first), left_alone(second), first.editing("layers.1.layer_output", halve):
        assert torch.equal(second._module(IDS).logits, plain) and second.edits() == []
        with second.editing("layers.1.layer_output", halve):
            assert not torch.equal(second._module(IDS).logits, plain)
            assert torch.equal(first._module(IDS).logits, by_hand_twice(first))


def by_hand_twice(model):
    """The logits under the edit that stands; reads see it, so nothing is done here."""
    with model.trace(IDS):
        return model.logits


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model_type, name, error, words",
    [
        ("gpt2", "layers.1.mlp.router_logits", Unavailable, "dense MLP"),
        ("mamba2", "layers.1.self_attn.attention_scores", Unavailable, "see linear_attn"),
        ("llama", "next_token_probs", ReadOnly, "computed from other values"),
        ("llama", "layers.1.layer_outptu", InputError, "near: layers.1.layer_output"),
        ("llama", "layers.9.layer_output", InputError, "no value is called"),
    ],
)
def test_what_cannot_be_edited_is_refused_at_once(model_type, name, error, words):
    model = tiny(model_type)
    with left_alone(model), pytest.raises(error, match=words):
        model.editing(name, halve)


def test_one_edit_does_not_stand_twice():
    model = tiny()
    edit = model.editing("layers.1.layer_output", halve)
    with left_alone(model):
        with edit, pytest.raises(InputError, match="stands already"), edit:
            pass
        with edit:
            assert repr(model.edits()[0]) == "<editing layers.1.layer_output with halve>"


def test_a_result_of_the_wrong_shape_is_refused_in_the_forward():
    from nnatlas.errors import LayoutError

    model = tiny()
    edit = model.editing("layers.1.layer_output", lambda value, call: value[:, :1])
    with left_alone(model), pytest.raises(LayoutError, match="in this run"), edit:
        model._module(IDS)


@pytest.mark.parametrize("name", ["vision.layers.1.layer_output", "vision.layers.1.self_attn.attention_probabilities",
                                  "vision.image_features"])  # fmt: skip
def test_towers_are_edited_too_and_read_after_the_edits(name):
    """Taps there go before hooks that transformers has put already, and the edits' still before the body's."""
    from PIL import Image

    model = load_with_eyes()
    batch = {"images": [Image.linear_gradient("L").convert("RGB").resize((56, 56))]}
    with model.trace("what?", **batch):
        node, value = host_of(model, name)
        plain = getattr(node, value).clone()
        setattr(node, value, (plain + 1) * 2)
        wanted = model.logits
    add, double = (lambda value, call: value + 1), (lambda value, call: value * 2)
    with left_alone(model), model.editing(name, add), model.editing(name, double):
        with model.trace("what?", **batch):
            node, value = host_of(model, name)
            seen, logits = getattr(node, value).clone(), model.logits
        found = model.collect("what?", name, **batch)[name]
    assert torch.equal(seen, (plain + 1) * 2) and torch.equal(found, seen)
    assert torch.equal(logits, wanted)


def load_with_eyes():
    from nnatlas.model import load

    return load("tiny:llava")


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "gemma2"])
def test_hidden_states_that_transformers_collects_are_the_edited_ones_whoever_asked_before(model_type):
    model = load(f"tiny:{model_type}")  # its own: the hooks that transformers leaves cannot be pickled
    for _ in range(2):  # the first call that asks leaves transformers' own hooks on the modules
        with model.editing("layers.1.layer_output", lambda value, call: value * 0 + 7):
            collected = model._module(IDS, output_hidden_states=True).hidden_states[2]
        assert collected.unique().tolist() == [7.0]
    with model.trace(IDS, output_hidden_states=True) as run:
        model.layers[1].layer_output[:] = 3
    assert run.output.hidden_states[2].unique().tolist() == [3.0]


def test_a_copy_of_the_module_is_not_edited():
    model = tiny("gpt2")
    bare = model._module(IDS).logits
    with model.editing("layers.1.layer_output", lambda value, call: value * 0):
        copied = copy.deepcopy(model._module)
        edited = model._module(IDS).logits
    assert torch.equal(copied(IDS).logits, bare)
    assert not torch.equal(edited, bare)


def test_an_edit_that_calls_its_own_model_is_told_so():
    model = tiny("llama")

    def traced(value, call):
        with model.trace(IDS):
            return model.layers[0].layer_output

    with left_alone(model):
        for function in (lambda value, call: model._module(IDS).logits, traced):
            with (
                pytest.raises(InputError, match="called the model that it stands on"),
                model.editing("layers.1.layer_output", function),
            ):
                model._module(IDS)
