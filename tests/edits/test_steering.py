"""Steering: the edit by hand bit for bit, at the right positions under any padding, along the right direction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.edits.every_edit import FAMILIES, GREEDY, model_of
from tests.tiny_models import IDS, left_alone

from nnatlas.edits import SteeringVector, steer, steering_vector
from nnatlas.errors import DamagedFile, InputError, LayoutError

UNEVEN = {
    "left": {"input_ids": torch.tensor([[0, 0, 5, 9], [5, 9, 2, 30]]),
             "attention_mask": torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])},
    "right": {"input_ids": torch.tensor([[5, 9, 0, 0], [5, 9, 2, 30]]),
              "attention_mask": torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])},
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_edit_by_hand(family):
    model = model_of(family)
    vector = torch.linspace(-1, 1, model.hidden_size)
    with left_alone(model):
        with model.trace(IDS):
            model.layers[0].layer_output[:, 2] += 3 * vector
            model.layers[1].layer_output[:, 2] += 3 * vector
            wanted = model.logits
        with steer(model, vector, layers=[0, 1], scale=3, positions=2), model.trace(IDS):
            got = model.logits
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("on", ["prompt", "new", "both"])
def test_a_generation_is_steered_step_by_step_as_by_hand(family, on):
    """-1 is the prompt's last token, then every new one."""
    model = model_of(family)
    vector = torch.linspace(-1, 1, model.hidden_size)
    with left_alone(model):
        with model.generate(IDS, **GREEDY) as hand:
            wanted = []
            for step in hand.steps():
                if on == "both" or (on == "prompt") == (step == 0):
                    model.layers[1].layer_output[:, -1] += 8 * vector
                wanted.append(model.logits)
        with steer(model, vector, layers=1, scale=8, positions=-1, on=on), model.generate(IDS, **GREEDY) as run:
            got = [model.logits for _ in run.steps()]
    assert torch.equal(run.output, hand.output) and all(map(torch.equal, got, wanted))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom", "falcon", "mixtral", "deepseek_v3"])
def test_minus_one_is_each_rows_last_real_token_whichever_side_is_padded(family, side):
    """The stream changes at the two right places and nowhere else, by exactly the vector."""
    model, batch = model_of(family), UNEVEN[side]
    vector = torch.linspace(-1, 1, model.hidden_size)
    at = [3, 3] if side == "left" else [1, 3]
    with left_alone(model):
        plain = model.collect(batch, "layers.1.layer_output")["layers.1.layer_output"]
        with steer(model, vector, layers=1, scale=5, positions=-1):
            moved = model.collect(batch, "layers.1.layer_output")["layers.1.layer_output"]
    wanted = plain.clone()
    for row, position in enumerate(at):
        wanted[row, position] += 5 * vector
    assert torch.equal(moved, wanted)


def test_a_left_padded_row_is_steered_as_the_prompt_alone():
    model = model_of("llama")
    vector = torch.linspace(-1, 1, model.hidden_size)
    options = {**GREEDY, "max_new_tokens": 4}
    with steer(model, vector, layers=[1, 2], scale=6, positions=[0, -1]):
        with model.generate(UNEVEN["left"], **options) as both:
            pass
        with model.generate(torch.tensor([[5, 9]]), **options) as alone:
            pass
    assert torch.equal(both.output[0, 2:], alone.output[0])


def test_a_float_vector_steers_a_stream_of_half_precision():
    from nnatlas.model import load

    model = load("tiny:llama", dtype=torch.bfloat16)
    vector = torch.linspace(-1, 1, model.hidden_size)
    with model.trace(IDS):
        plain = model.layers[1].layer_output.clone()
    with steer(model, vector, layers=1, scale=3), model.trace(IDS):
        moved = model.layers[1].layer_output
    assert moved.dtype == torch.bfloat16 and torch.equal(moved, plain + (3 * vector).bfloat16())


# --- the vector -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mean_vector_is_the_difference_of_means_at_last_tokens(family):
    """Prompts of unequal length in one padded batch, against one prompt at a time."""
    model = model_of(family)
    positive, negative = ["so very good", "nice"], ["bad", "an ugly thing", "no"]

    def ends(texts):
        rows = []
        for text in texts:
            with model.trace(text):
                rows.append(model.layers[1].layer_output[0, -1].clone())
        return torch.stack(rows).mean(0)

    vector = steering_vector(model, positive, negative, layers=1)
    assert list(vector.directions) == [1] and vector[1].shape == (model.hidden_size,)
    torch.testing.assert_close(vector[1], ends(positive) - ends(negative), atol=2e-4, rtol=1e-3)
    chunked = steering_vector(model, positive, negative, layers=1, batch_size=1)
    torch.testing.assert_close(vector[1], chunked[1], atol=2e-4, rtol=1e-3)


def test_right_padded_batches_are_read_at_the_last_real_token():
    model = model_of("llama")
    left, right = (steering_vector(model, UNEVEN[side], "x", layers=1) for side in ("left", "right"))
    torch.testing.assert_close(left[1], right[1], atol=1e-4, rtol=1e-3)


def test_the_principal_direction_is_where_the_pairs_differ_most():
    """By an eigenvector of the second moments of the differences, which is another way to it."""
    model = model_of("gpt2")
    positive, negative = ["aa", "ab", "ac", "ad"], ["ba", "cc", "ee", "dx"]
    found = model.collect([*positive, *negative], "layers.2.layer_output")["layers.2.layer_output"][:, -1]
    apart = (found[:4] - found[4:]).double()
    values, vectors = torch.linalg.eigh(apart.T @ apart)
    direction = vectors[:, -1] * torch.sign(apart.sum(0) @ vectors[:, -1])
    vector = steering_vector(model, positive, negative, method="pca", layers=2)[2].double()
    torch.testing.assert_close(vector / vector.norm(), direction, atol=1e-4, rtol=1e-3)
    assert float(vector.norm()) == pytest.approx(float((values[-1] / 4).sqrt()), rel=1e-4)


def test_steering_moves_a_prompt_toward_what_the_vector_was_made_from():
    """One unit from the negative prompts' mean is the positive ones' mean."""
    model = model_of("llama")
    positive, negative = ["so good", "nice one"], ["so bad", "ugly it"]
    vector = steering_vector(model, positive, negative, layers=2)
    name = "layers.2.layer_output"
    end = lambda texts: model.collect(texts, name)[name][:, -1].mean(0)
    with steer(model, vector, positions=-1):
        moved = end(negative)
    torch.testing.assert_close(moved, end(positive), atol=1e-4, rtol=1e-4)


def test_a_saved_vector_comes_back(tmp_path):
    model, path = model_of("llama"), tmp_path / "vector.safetensors"
    vector = steering_vector(model, ["good"], ["bad"])
    vector.save(path)
    loaded = SteeringVector.load(path)
    assert list(loaded.directions) == list(range(model.num_layers)) and loaded.method == "mean"
    assert all(torch.equal(loaded[layer], vector[layer]) for layer in loaded.directions)
    assert repr(loaded).startswith("<SteeringVector by mean; norm by layer: 0: ")
    steer(model, vector).save(path)
    with pytest.raises(DamagedFile, match=r"holds a Steering: nnatlas.edits.load"):
        SteeringVector.load(path)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    model = model_of("llama")
    vector = steering_vector(model, ["good"], ["bad"], layers=[0, 1])
    with pytest.raises(InputError, match="no layer 3; it has 0, 1"):
        steer(model, vector, layers=3)
    with pytest.raises(LayoutError, match="layer 9 of 4: they are numbered 0 to 3"):
        steer(model, torch.zeros(model.hidden_size), layers=9)
    with pytest.raises(InputError, match=r"layers=\[9\]"):
        steer(model, torch.zeros(model.hidden_size))
    with pytest.raises(LayoutError, match=r"is \[3\], the stream's is"):
        steer(model, torch.zeros(3), layers=1)
    with pytest.raises(InputError, match="there are mean, pca"):
        steering_vector(model, ["a"], ["b"], method="best")
    with pytest.raises(InputError, match="takes pairs"):
        steering_vector(model, ["a", "c"], ["b"], method="pca")
    with pytest.raises(InputError, match="no prompts"):
        steering_vector(model, [], ["b"])
    for wrong in ("1", 1.0, [0, None]):
        with pytest.raises(InputError, match="layers are named by whole numbers"):
            steer(model, torch.zeros(model.hidden_size), layers=wrong)
    with pytest.raises(InputError, match=r"a list is no direction: .* a tensor \[hidden_size\] of floats"):
        steer(model, [0.0] * model.hidden_size, layers=1)
    with pytest.raises(InputError, match=r"a list is no direction"):
        steer(model, {1: [0.0] * model.hidden_size})
    with pytest.raises(InputError, match=r"a tensor of torch\.int64 is no direction"):
        steer(model, torch.ones(model.hidden_size, dtype=torch.long), layers=1)


def test_numbers_of_numpy_and_torch_are_numbers():
    model = model_of("llama")
    direction = torch.ones(model.hidden_size)
    for layers in (np.int64(1), np.array([1]), torch.tensor(1), torch.tensor([1])):
        assert list(steer(model, direction, layers=layers).vectors) == [1]
    assert list(steer(model, {-1: direction}).vectors) == [model.num_layers - 1]
