"""Point 4: values come in order; what is past raises at its line, what never comes says so, nothing comes from a later step."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiny_models import IDS, tiny

from nnatlas.bind.points import Point
from nnatlas.errors import AlreadyRan, NeverReached
from nnatlas.model import load


def fresh(model_type="llama"):
    """A model about whose order nothing has been learned."""
    return load(f"tiny:{model_type}")


def test_an_earlier_block_raises_at_the_line_and_moves_nothing():
    model = fresh()
    with model.trace(IDS) as run:
        model.layers[2].layer_output
        with pytest.raises(AlreadyRan) as error:
            model.layers[0].layer_output
        assert run._run.where() == "layers[2].layer_output"
        model.layers[3].layer_output
    said = str(error.value)
    assert "layers[0].layer_output" in said
    assert "layers[2].layer_output" in said
    assert "model.collect(" in said


EARLIER = ["attention_norm_output", "self_attn.attention_queries", "self_attn.attention_probabilities", "layer_input"]


@pytest.mark.parametrize("first", ["self_attn.attention_premix", "self_attn.attention_output", "mlp.mlp_output"])
@pytest.mark.parametrize("asked", EARLIER)
def test_inside_a_block_the_first_run_knows_already(first, asked):
    """Nothing has been learned of this model before: the run takes notes as it goes."""
    model = fresh()
    for _ in range(2):
        with model.trace(IDS) as run:
            value_of(model.layers[1], first)
            stood = run._run.where()
            with pytest.raises(AlreadyRan):
                value_of(model.layers[1], asked)
            assert run._run.where() == stood
            model.layers[1].layer_output


def value_of(node, path):
    for part in path.split("."):
        node = getattr(node, part)
    return node


def test_what_lies_outside_the_blocks_is_in_order_too():
    model = fresh()
    for _ in range(2):
        with model.trace(IDS) as run:
            model.final_norm_output
            for read in (
                lambda: model.layers[3].layer_output,
                lambda: model.token_embeddings,
                lambda: model.model.rotary_emb.output,
            ):
                with pytest.raises(AlreadyRan):
                    read()
            assert run._run.where() == "final_norm_output"
            assert model.logits.shape == (1, 6, model.vocab_size)


def test_interior_steps_are_in_order():
    model = tiny()
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        attention.attention_probabilities
        for name in ("attention_scores", "attention_keys"):
            with pytest.raises(AlreadyRan):
                getattr(attention, name)
        assert attention.attention_head_outputs.shape == (1, 6, 4, model.layers[1].self_attn.head_dim)


@pytest.mark.parametrize("model_type", ["bloom", "falcon"])
def test_operations_are_in_order(model_type):
    model = tiny(model_type)
    attention = model.layers[1].self_attn
    for _ in range(2):
        with model.trace(IDS) as run:
            attention.attention_probabilities
            for name in ("attention_scores", "attention_queries"):
                with pytest.raises(AlreadyRan):
                    getattr(attention, name)
            assert run._run.where().endswith("attention_probabilities")
            attention.attention_premix
            with pytest.raises(AlreadyRan):
                attention.attention_head_outputs


def test_a_module_that_is_not_called_says_so_and_the_block_can_still_be_read():
    model = fresh()
    block = model._module.model.layers[1]
    block.spare = torch.nn.Linear(2, 2)
    for _ in range(2):
        with model.trace(IDS):
            model.layers[1].attention_norm_output
            with pytest.raises(NeverReached, match="spare") as error:
                model.layers[1].spare.output
            assert "layers[1]" in str(error.value)
            out = model.layers[1].layer_output
            assert torch.equal(model.layers[2].layer_input, out)


def test_a_skipped_block_is_never_reached_and_the_result_can_still_be_read():
    model = fresh()
    model._module.config.num_hidden_layers = 2  # the forward goes through this many
    for _ in range(2):
        with model.trace(IDS):
            model.layers[0].layer_output
            with pytest.raises(NeverReached, match=r"layers\[3\]"):
                model.layers[3].mlp.mlp_output
            assert model.logits.shape[-1] == model.vocab_size


def test_a_step_is_never_answered_with_the_next_steps_value():
    model = fresh()
    lengths = []
    with model.generate(IDS, max_new_tokens=4, do_sample=False) as run:
        for step in run.steps():
            lengths.append(model.layers[1].layer_output.shape[1])
            for _ in range(2):  # asking again does not help
                with pytest.raises(AlreadyRan):
                    model.layers[1].layer_input
                with pytest.raises((AlreadyRan, NeverReached)):
                    model.model.rotary_emb.output
            model.logits
            with pytest.raises(AlreadyRan):
                model.layers[0].layer_output
            with pytest.raises(AlreadyRan):
                model.input_ids
            assert run.step == step == len(lengths) - 1
    assert lengths == [6, 1, 1, 1]


def test_after_the_end_everything_has_run():
    model = tiny()
    with model.trace(IDS) as run:
        model.logits
        with pytest.raises(AlreadyRan, match="logits"):
            model.final_norm_output
        run.stop()
        with pytest.raises(AlreadyRan, match=r"run\.stop\(\)"):
            model.layers[0].layer_output


def test_an_error_in_the_first_run_leaves_nothing_half_learned():
    model = fresh()
    with pytest.raises(ZeroDivisionError), model.trace(IDS):
        model.layers[1].self_attn.attention_queries
        1 / 0
    assert model._owner.orders == {}
    with model.trace(IDS):
        model.layers[1].mlp.mlp_output
        with pytest.raises(AlreadyRan):
            model.layers[1].self_attn.attention_queries
    assert len(model._owner.orders) == 1


def in_order(model):
    """Every point of a model by the order in which a forward of it comes by (each block's reads in one run of its own)."""
    points = []
    for host in (part for block in model._owner.blocks for part in (block, *block.parts.values())):
        for name in host.values:
            if host.absence(name) is None:
                points += [host.point(name)]
    return [point for point in points if isinstance(point, Point)]


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("model_type", ["llama", "olmo2", "falcon", "bloom", "gpt_neox", "mixtral"])
def test_any_subset_read_in_order_is_served(model_type, data):
    """Never a false AlreadyRan: reads that respect the forward's order all answer, whatever was learned before."""
    model = tiny(model_type) if data.draw(st.booleans()) else MODELS.setdefault(model_type, fresh(model_type))
    points = sorted_points(model_type)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(points) - 1), min_size=1, max_size=8)))
    with model.trace(IDS):
        for at in chosen:
            eval(f"model.{points[at]}", {"model": model})


MODELS, ORDERS = {}, {}


def sorted_points(model_type):
    """Paths of points in the order in which taps that never stop the forward note them."""
    if model_type not in ORDERS:
        model = tiny(model_type)
        seen = watch_everything(model, [point for point in in_order(model) if point.block in (0, 1)])
        ORDERS[model_type] = seen
    return ORDERS[model_type]


def watch_everything(model, points):
    """Collect with a forward that only notes in which order the sites come by."""
    from nnatlas.model.collect import Gathering

    class Noting(Gathering):
        order: list[str] = []

        def reach(self, site, payload, at=None):
            self.order.extend(point.name for point in self._by_site[site])
            super().reach(site, payload, at)

    noting = Noting(model._owner)
    Noting.order = []
    for point in points:
        noting.need(point)
    noting.run_forward(lambda: model._module(IDS))
    return Noting.order
