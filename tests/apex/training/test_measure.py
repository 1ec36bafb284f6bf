"""The measurements measure: against a model whose answers are known, and the bundled card against its own model."""

from __future__ import annotations

import gzip
import json
import math

import pytest
import torch
from tests.apex.small_models import tiny_model
from transformers import AutoTokenizer

from nnatlas.apex import checkpoint_path
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training import measure
from nnatlas.apex.training.bundle import store_half
from nnatlas.apex.training.corpus import Document, split, standard_library
from nnatlas.apex.training.recipe import Recipe
from nnatlas.apex.training.tokens import train_tokenizer

TEXT = "values = [f(x), (y)]\n" * 40


@pytest.fixture(scope="module")
def bundled():
    folder = checkpoint_path()
    return folder, Apex1ForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_a_model_that_knows_nothing_needs_log2_v_bits_per_token():
    tokenizer = train_tokenizer([TEXT], 300)
    model = tiny_model(vocab_size=len(tokenizer), num_hidden_layers=1, logit_scale=0.0, n_predict=2)
    documents = [Document("a", TEXT)]
    taken = measure.measure(model, tokenizer, documents, prompts=1)
    ids = tokenizer(TEXT)["input_ids"]
    assert taken.loss == pytest.approx(math.log(len(tokenizer)), abs=1e-4)
    assert taken.bits_per_byte == pytest.approx(len(ids) * math.log2(len(tokenizer)) / len(TEXT), rel=1e-4)
    assert taken.gzip_bits_per_byte == pytest.approx(8 * len(gzip.compress(TEXT.encode())) / len(TEXT))
    assert taken.first_copy_loss == pytest.approx(taken.second_copy_loss, abs=1e-3)


def test_every_target_is_scored_once_with_half_a_window_before_it():
    for length in (1, 2, 9, 10, 11, 16, 40, 41):
        scored = []
        for window, known in measure._windows(list(range(length)), 10):
            scored += window[known + 1 :]
            assert window[0] == 0 or known >= 4
        assert scored == list(range(1, length))


def test_an_induction_head_is_told_from_others():
    """Attention moved by hand onto the token after the same token's last occurrence."""
    model = tiny_model(num_hidden_layers=2, skip_gate_enabled=False)
    scores = measure.induction_scores(model, batch=4)
    assert scores.shape == (2, 4)
    assert scores.max() < 0.6
    pattern = torch.zeros(4, 4, 49, 49)
    pattern[:, 3, torch.arange(25, 48), torch.arange(25, 48) - 23] = 1
    model.model.blocks[1].attn.register_forward_hook(lambda _m, _a, out: (out[0], pattern), prepend=True)
    assert measure.induction_scores(model, batch=4)[1].tolist() == [0, 0, 0, 1]


def test_the_bundled_checkpoint_is_what_its_card_says(bundled):
    folder, model, tokenizer = bundled
    numbers = json.loads((folder / "measurements.json").read_text())
    card = (folder / "README.md").read_text()
    assert f"{numbers['bits_per_byte']:.3f}" in card
    assert all(number > 1.5 for name, number in numbers.items() if "tokens_per_pass" in name)
    assert numbers["bits_per_byte"] < 0.75 * numbers["gzip_bits_per_byte"]
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8_000_000
    assert next(model.parameters()).dtype == torch.float32
    scores = measure.induction_scores(model, batch=16)
    block, head = numbers["induction_block"], numbers["induction_head"]
    assert f"block {block}, head {head}" in card
    assert scores[block, head] > 0.5
    assert scores[block, head] > scores.max() - 0.05  # several are about as strong
    first, second = measure.repetition_losses(model, batch=16)
    assert second < first - 2  # it copies
    assert Recipe.load(folder).config().to_dict()["hidden_size"] == model.config.hidden_size
    sample = [d.text[:3000] for d in split(standard_library())[1][:6]]
    nats, tokens, right, _, closers = measure._read_through(model, tokenizer, sample)
    assert nats / tokens < 1.25 * numbers["loss"]
    assert right / closers > 0.85


def test_half_the_size_and_nearly_the_same_numbers(tmp_path):
    model = tiny_model()
    store_half(model, tmp_path)
    loaded, ids = Apex1ForCausalLM.from_pretrained(tmp_path), torch.arange(3, 20)[None]
    assert (tmp_path / "model.safetensors").stat().st_size < 2.3 * model.num_parameters()
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=0.03, rtol=0)
    assert torch.equal(loaded.model.blocks[1].ffn.expert_bias, model.model.blocks[1].ffn.expert_bias)
