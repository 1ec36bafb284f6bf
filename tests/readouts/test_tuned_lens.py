"""The tuned lens: published files load and do their arithmetic, training lowers the KL, files go both ways."""

from __future__ import annotations

import json

import pytest
import torch
from tests.tiny_models import left_alone, tiny
from torch import nn

from nnatlas.errors import DamagedFile, InputError
from nnatlas.readouts import load_tuned_lens, logit_lens, train_tuned_lens

TEXTS = ["The tower is tall", "A cat sat down", "Hello there you", "one two three", "Water flows", "abc abc abc"]


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def published(folder, model, *, bias=True, prefix="", **changed):
    """A folder as the tuned-lens package writes it, with random translators; returns their weights."""
    draw = torch.Generator().manual_seed(0)
    size, count = model.hidden_size, model.num_layers
    state = {f"{prefix}{at}.weight": torch.randn(size, size, generator=draw) / 20 for at in range(count)}
    if bias:
        state |= {f"{prefix}{at}.bias": torch.randn(size, generator=draw) / 20 for at in range(count)}
    torch.save(state, folder / "params.pt")
    config = dict(
        base_model_name_or_path="some/model", d_model=size, num_hidden_layers=count, bias=bias,
        base_model_revision="main", unembed_hash="0" * 64, lens_type="linear_tuned_lens",
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config | changed))
    return {name.removeprefix(prefix): value for name, value in state.items()}


@pytest.mark.parametrize("bias, prefix", [(True, ""), (False, ""), (True, "layer_translators.")])
def test_a_published_lens_does_its_arithmetic(model, tmp_path, bias, prefix):
    state = published(tmp_path, model, bias=bias, prefix=prefix)
    lens = load_tuned_lens(model, tmp_path)("The tower")
    with model.trace("The tower"):
        streams = [block.layer_input for block in model.layers]
        logits = model.logits
    assert lens.values == (*(f"layers.{at}.layer_input" for at in range(4)), "layers.3.layer_output")
    for at, stream in enumerate(streams):
        translated = stream + stream @ state[f"{at}.weight"].T + (state[f"{at}.bias"] if bias else 0)
        torch.testing.assert_close(lens.logits_of(at), model.project_on_vocab(translated), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(lens.logits_of(-1), logits, atol=1e-5, rtol=1e-5)
    assert lens.kl_to_final[-1].abs().max() == 0 and len(lens.grid().rows) == 5


def test_training_brings_every_layer_nearer(model):
    torch.manual_seed(0)
    with left_alone(model):
        lens = train_tuned_lens(model, TEXTS, steps=60, rows=4, learning_rate=3e-3)
    assert len(lens.history) == 60
    plain = logit_lens(model, TEXTS, [f"layers.{at}.layer_input" for at in range(4)])
    mask = plain.mask
    before, after = plain.kl_to_final[:, mask].mean(1), lens(TEXTS).kl_to_final[:4, mask].mean(1)
    assert lens.history[0] == pytest.approx(float(before.mean()), rel=0.3)
    assert (after < 0.8 * before).all()


def test_what_is_saved_loads_here_and_is_in_the_packages_form(model, tmp_path):
    lens = train_tuned_lens(model, TEXTS, steps=2, learning_rate=0.1)
    assert lens.save(tmp_path / "new" / "lens") == tmp_path / "new" / "lens"
    again = load_tuned_lens(model, tmp_path / "new" / "lens")
    assert torch.equal(again("Hi").logits, lens("Hi").logits)
    theirs = nn.ModuleList(nn.Linear(model.hidden_size, model.hidden_size) for _ in range(4))
    theirs.load_state_dict(torch.load(tmp_path / "new" / "lens" / "params.pt", weights_only=True))
    config = json.loads((tmp_path / "new" / "lens" / "config.json").read_text())
    assert config["d_model"] == model.hidden_size and config["lens_type"] == "linear_tuned_lens"


def test_an_untrained_lens_is_the_logit_lens(model, tmp_path):
    published(tmp_path, model)
    state = {name: torch.zeros_like(value) for name, value in torch.load(tmp_path / "params.pt").items()}
    torch.save(state, tmp_path / "params.pt")
    names = [f"layers.{at}.layer_input" for at in range(4)]
    assert torch.equal(load_tuned_lens(model, tmp_path)("Hi").logits[:4], logit_lens(model, "Hi", names).logits)


def test_what_is_wrong_is_said(model, tmp_path):
    with pytest.raises(InputError, match=r"it should hold config\.json and params\.pt"):
        load_tuned_lens(model, tmp_path)
    published(tmp_path, model, d_model=8)
    with pytest.raises(InputError, match="made for some/model: it has d_model 8, the model 64"):
        load_tuned_lens(model, tmp_path)
    published(tmp_path, model, lens_type="other")
    with pytest.raises(InputError, match="a lens of type 'other'"):
        load_tuned_lens(model, tmp_path)
    published(tmp_path, model)
    (tmp_path / "params.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(DamagedFile, match="no state dict"):
        load_tuned_lens(model, tmp_path)
    torch.save({"0.weight": torch.zeros(2, 2)}, tmp_path / "params.pt")
    with pytest.raises(DamagedFile, match="Missing key"):
        load_tuned_lens(model, tmp_path)
    with pytest.raises(InputError, match="no prompts"):
        train_tuned_lens(model, [])
