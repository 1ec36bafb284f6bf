"""Points 5 and 6: what you hold stays what you saw; an edit lands, or raises, and never silently does nothing."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, plain, tiny

from nnatlas.errors import AlreadyRan, LayoutError, ReadOnly
from nnatlas.model import load


def point_of(model, path):
    """The point of a value by the name that `collect` takes."""
    host, value = model._owner.names[path]
    return host.point(value)


def with_hook(model, module, change, ids=IDS):
    """The logits when a plain hook puts `change(output)` for a module's output: the oracle of this file."""

    def hook(_, args, output):
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    handle = module.register_forward_hook(hook)
    try:
        return model._module(ids).logits
    finally:
        handle.remove()


def test_editing_in_place_and_by_assignment_are_one():
    model = tiny()
    expected = with_hook(model, model.layers[1].mlp._module, lambda x: x * 0.5)
    with left_alone(model):
        with model.trace(IDS):
            model.layers[1].mlp.mlp_output *= 0.5
            first = model.logits
        with model.trace(IDS):
            model.layers[1].mlp.mlp_output = model.layers[1].mlp.mlp_output * 0.5
            second = model.logits
        with model.trace(IDS):
            model.layers[1].mlp.mlp_output[:] = model.layers[1].mlp.mlp_output * 0.5
            third = model.logits
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)
    assert torch.equal(third, expected)


def test_a_float32_vector_on_a_bfloat16_stream_is_cast():
    model = load("tiny:llama", dtype=torch.bfloat16)
    vector = torch.linspace(-1, 1, model.hidden_size)
    expected = with_hook(model, model.layers[1]._module, lambda x: x + vector.bfloat16())
    with model.trace(IDS):
        model.layers[1].layer_output += vector
        assert model.layers[1].layer_output.dtype == torch.bfloat16
        assert model.logits.dtype == torch.bfloat16
        added = model.logits
    assert (added.float() - expected.float()).abs().max() < 0.1
    with model.trace(IDS):
        model.layers[1].layer_output = model.layers[1].layer_output.float() + vector
        assert model.layers[1].layer_output.dtype == torch.bfloat16
        assert model.layers[2].layer_input.dtype == torch.bfloat16


def test_what_does_not_fit_is_refused_and_says_what_would():
    model = tiny()
    with model.trace(IDS):
        with pytest.raises(LayoutError, match=r"hidden_size is 64.*\[1, 6, 63\]"):
            model.layers[1].layer_output = torch.zeros(1, 6, 63)
        with pytest.raises(LayoutError, match=r"\[:\] = "):
            model.layers[1].layer_output = torch.zeros(64)
        with pytest.raises(LayoutError, match="str"):
            model.layers[1].layer_output = "nothing"
        with pytest.raises(LayoutError, match=r"\[1, 6, 64\]"):
            model.layers[1].layer_output = torch.zeros(1, 5, 64)
        model.layers[1].layer_output = 0
        assert model.layers[2].layer_input.abs().sum() == 0


def test_an_expanded_tensor_and_another_dtype_fit():
    model = tiny()
    row = torch.arange(64, dtype=torch.float64)
    with model.trace(IDS):
        model.layers[1].layer_output = row.expand(1, 6, 64)
        model.layers[1].layer_output[:, 0] = 0
        entering = model.layers[2].layer_input.clone()
    assert torch.equal(entering[0, 1], row.float())
    assert entering[0, 0].abs().sum() == 0
    assert torch.equal(row, torch.arange(64, dtype=torch.float64))


def test_an_assigned_tensor_is_copied():
    """Neither the body's later writes nor the forward's own reach across."""
    model = tiny()
    buffer = torch.ones(1, 6, 64)
    with model.trace(IDS):
        for i in range(model.num_layers):
            model.layers[i].layer_output = buffer.fill_(i)
        last = model.final_norm_output
    falcon = tiny("falcon")
    mine = torch.ones(1, 6, falcon.hidden_size)
    with falcon.trace(IDS):
        falcon.layers[0].mlp.mlp_output = mine
        falcon.layers[1].layer_input
    assert torch.equal(mine, torch.ones_like(mine)), "Falcon adds into its MLP's output, not into what was assigned"
    assert torch.equal(buffer, torch.full_like(buffer, model.num_layers - 1))
    assert last.abs().sum() > 0


VIEWS = [
    ("gpt2", "self_attn.attention_premix"),
    ("gpt2", "self_attn.attention_queries"),
    ("gpt2", "self_attn.attention_keys"),
    ("gpt2", "self_attn.attention_values"),
    ("gpt_neox", "self_attn.unrotated_queries"),
    ("gpt_neox", "self_attn.unrotated_keys"),
    ("gpt_neox", "self_attn.attention_values"),
    ("bloom", "self_attn.attention_queries"),
    ("bloom", "self_attn.attention_keys"),
    ("bloom", "self_attn.attention_values"),
    ("bloom", "self_attn.attention_head_outputs"),
    ("falcon", "self_attn.attention_keys"),
    ("granite", "self_attn.attention_output"),
    ("granite", "mlp.mlp_output"),
    ("opt", "layer_mid"),
    ("opt", "mlp.mlp_neurons"),
    ("llama", "layer_mid"),
    ("olmo2", "layer_mid"),
    ("mixtral", "mlp.router_logits"),
]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("model_type, path", VIEWS)
def test_edits_through_views_splits_and_scales_land(model_type, path, gradients):
    """In place, by slice and by assignment: all three change the logits, and in the same way."""
    model = tiny(model_type)
    found = []
    with torch.set_grad_enabled(gradients):
        for edit in (in_place, by_slice, assigned):
            with left_alone(model), model.trace(IDS):
                edit(model.layers[1], path)
                found.append(model.logits)
    untouched = model._module(IDS).logits
    assert (found[0] - untouched).abs().max() > 1e-4
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert torch.allclose(found[0], found[2], atol=1e-5)


def host_of(block, path):
    part, _, name = path.rpartition(".")
    return (getattr(block, part) if part else block), name


def in_place(block, path):
    getattr(*host_of(block, path)).mul_(1.5)


def by_slice(block, path):
    getattr(*host_of(block, path))[:] *= 1.5


def assigned(block, path):
    host, name = host_of(block, path)
    setattr(host, name, getattr(host, name) * 1.5)


def test_two_parts_of_one_fused_projection_are_edited_together():
    """Every mixture of edits in place and assignments to queries and keys of one split gives the same logits."""
    model = tiny("gpt_neox")
    results = []
    for first in (in_place, assigned):
        for second in (in_place, assigned):
            for held in (False, True):
                with model.trace(IDS):
                    attention = model.layers[1].self_attn
                    if held:
                        attention.unrotated_queries, attention.unrotated_keys
                    first(model.layers[1], "self_attn.unrotated_queries")
                    second(model.layers[1], "self_attn.unrotated_keys")
                    results.append(model.logits)
    with model.trace(IDS):
        keys = model.layers[1].self_attn.unrotated_keys
        model.layers[1].self_attn.unrotated_queries = model.layers[1].self_attn.unrotated_queries * 1.5
        keys *= 1.5  # held since before the assignment
        results.append(model.logits)
    assert (results[0] - model._module(IDS).logits).abs().max() > 1e-4
    assert all(torch.allclose(results[0], other, atol=1e-6) for other in results[1:])


def test_one_tensor_under_two_names_is_no_late_edit():
    """One block's output is the next one's input: an edit there reaches the model, whoever else holds the tensor."""
    model = tiny()
    expected = with_hook(model, model.layers[0]._module, lambda x: x * 2)
    with model.trace(IDS):
        held = model.layers[0].layer_output
        model.layers[1].layer_input *= 2
        logits = model.logits
    assert torch.equal(logits, expected)
    assert held is not None


def test_a_native_and_a_standard_name_of_one_place_agree():
    model = tiny("granite")
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        held = attention.attention_output
        attention.attention_output = held * 3
        assert torch.allclose(attention.output[0], held * 3 / model.config.residual_multiplier, atol=1e-5)


def test_a_late_edit_raises():
    model = tiny()
    with pytest.raises(AlreadyRan, match=r"layers\[0\]\.layer_output was changed in place after"), model.trace(IDS):
        held = model.layers[0].layer_output
        model.layers[1].layer_output
        held += 1
    with left_alone(model), model.trace(IDS):
        held = model.layers[0].layer_output
        model.layers[1].layer_output
    held += 1  # the run is over: the tensor is the reader's own


def test_derived_values_are_read_only():
    model = tiny()
    with pytest.raises(ReadOnly, match="next_token_probs"), model.trace(IDS):
        model.next_token_probs[0] = 0
    with model.trace(IDS):
        with pytest.raises(ReadOnly, match="attention_head_contributions"):
            model.layers[1].self_attn.attention_head_contributions = 0
        with pytest.raises(ReadOnly, match="input_size"):
            model.input_size = [1, 2]
        assert model.logits.shape[0] == 1


def test_reported_values_refuse_assignment_and_edits_in_place():
    """A value that the forward only hands out: every row has its own; any of them will do."""
    for model_type in ("llama", "mixtral", "gpt_oss"):
        model = tiny(model_type)
        for host in (part for block in model._owner.blocks[1:2] for part in (block, *block.parts.values())):
            for name in host.values:
                point = None if host.absence(name) else host.point(name)
                if point is not None and getattr(point, "read_only", "") and hasattr(point, "site"):
                    with pytest.raises(ReadOnly), model.trace(IDS) as run:
                        run._run.read(point).mul_(2)
                        run.layers[2].layer_input


def test_what_you_hold_stays_what_you_saw():
    """Falcon adds into its MLP's output in place; W7 of the public cases."""
    model = tiny("falcon")
    with model.trace(IDS):
        kept = model.layers[0].mlp.mlp_output
        copied = model.layers[0].mlp.mlp_output.clone()
        out = model.layers[0].layer_output
    assert torch.equal(kept, copied)
    kept += 1
    with model.trace(IDS):
        assert torch.equal(model.layers[0].layer_output, out)


def test_an_assignment_to_layer_mid_leaves_what_was_read():
    """The stream between attention and MLP is written in place, because the residual sum uses the same tensor."""
    model = tiny()
    with model.trace(IDS):
        held = model.layers[1].layer_mid
        before = held.clone()
        model.layers[1].layer_mid = 0
        assert torch.equal(held, before)
        assert model.layers[1].layer_mid.abs().sum() == 0
    with model.trace(IDS):
        model.layers[1].layer_mid[:] = 0
        written = model.layers[1].mlp.mlp_output
        assert torch.equal(model.layers[1].layer_output, written), "the residual path carries the edit too"


def test_edits_under_inference_mode_land():
    model = tiny("granite")
    expected = []
    for inference in (False, True):
        with model.trace(IDS):
            with torch.inference_mode(inference):
                model.layers[0].self_attn.attention_output[:, -1] *= 2
                model.layers[1].layer_input = model.layers[1].layer_input * 0.5
                model.layers[1].mlp.mlp_output
            expected.append(model.logits)
            assert not model.logits.is_inference()
    assert torch.equal(*expected)


def test_what_was_handed_in_is_not_written_into():
    model = tiny()
    ids, mask, embedded = IDS.clone(), torch.ones_like(IDS), torch.ones(1, 6, 64)
    with model.trace({"input_ids": ids, "attention_mask": mask}):
        model.input_ids[:, 0] = 1
        model.attention_mask[:, 0] = 0
        logits = model.logits
    changed = {"input_ids": torch.cat([torch.ones_like(IDS[:, :1]), IDS[:, 1:]], 1), "attention_mask": mask.clone()}
    changed["attention_mask"][:, 0] = 0
    assert torch.equal(logits, model._module(**changed).logits)
    with model.trace(inputs_embeds=embedded):
        model.layers[0].layer_input *= 3
        assert model.input_size == [1, 6]
    assert torch.equal(ids, IDS)
    assert mask.sum() == 6
    assert embedded.sum() == embedded.numel()


def test_reading_changes_nothing():
    for model_type in ("llama", "gpt2", "granite", "falcon"):
        model = tiny(model_type, "eager")
        expected = model._module(IDS).logits
        with torch.enable_grad(), model.trace(IDS):
            for layer in model.layers:
                layer.layer_input, layer.self_attn.attention_premix, layer.self_attn.attention_output
                layer.mlp.mlp_output.requires_grad_()
            logits = model.logits
        assert torch.equal(logits, expected), model_type


def test_plain_reads_are_what_plain_hooks_see():
    model = tiny("gpt2")
    expected = plain(model, IDS, {"x": model.layers[1].mlp._module})
    with model.trace(IDS):
        assert torch.equal(model.layers[1].mlp.mlp_output, expected["x"])


@pytest.mark.parametrize(
    ("model_type", "path"),
    [("granite", "layers.1.mlp.mlp_output"), ("falcon", "layers.1.mlp.mlp_output"), ("llama", "layers.1.layer_output")],
)
@pytest.mark.parametrize("write", [lambda x: x.data.zero_(), lambda x: x.numpy().fill(0)], ids=["data", "numpy"])
def test_writes_that_no_counter_sees_land(model_type, path, write):
    """Of a scaled value and of a copy they would be lost, were they not looked for."""
    model = tiny(model_type)
    with left_alone(model), model.trace(IDS) as run:
        write(run._run.read(point_of(model, path)))
        logits = model.logits
    with model.trace(IDS) as run:
        run._run.write(point_of(model, path), 0)
        assert torch.equal(model.logits, logits)


def test_a_write_into_the_native_tensor_is_not_undone_by_a_value_read_from_it():
    model = tiny("granite")
    mlp = model.layers[1].mlp
    with model.trace(IDS):
        seen = mlp.mlp_output
        mlp.output[:] = 0
        following = model.layers[1].layer_output
        assert seen.any()
    with model.trace(IDS):
        mlp.mlp_output = 0
        assert torch.equal(model.layers[1].layer_output, following)


def test_numbers_that_the_forward_would_cut_are_refused():
    model = tiny()
    with model.trace(IDS):
        model.input_ids = IDS.double()  # whole numbers of any dtype are whole
        for wrong in (0.5, IDS + 0.25, torch.full(IDS.shape, float("inf"))):
            with pytest.raises(LayoutError, match=r"input_ids holds torch.int64, which cannot take these"):
                model.input_ids = wrong
        assert torch.equal(model.input_ids, IDS)
        with pytest.raises(LayoutError, match=r"torch.float32, which cannot take these numbers of torch.complex64"):
            model.layers[0].layer_output = torch.zeros(1, 6, model.hidden_size, dtype=torch.complex64)
