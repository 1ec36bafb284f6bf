"""The logit lens: its last layer is the model, its numbers are those of plain softmax, and it holds nothing large."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import nnatlas
from nnatlas import families
from nnatlas.errors import InputError
from nnatlas.grid import Grid
from nnatlas.readouts import logit_lens
from nnatlas.readouts.lens_view import NARROWEST, bar, tables
from nnatlas.show import text_of

PROMPT = "The tower"
# one of every shape of block and of every scale and cap on the readout
SHAPES = ["gpt2", "gemma2", "cohere2", "granite", "exaone4", "mixtral", "gpt_oss", "bloom", "opt", "gpt_neox", "falcon"]


@pytest.fixture(scope="module")
def model():
    return nnatlas.load("tiny:llama")


@pytest.fixture(scope="module")
def lens(model):
    return logit_lens(model, [PROMPT, "Hi"])


@pytest.mark.parametrize("name", SHAPES)
def test_the_last_layer_is_the_model(name):
    assert families.find(name)
    model = nnatlas.load(f"tiny:{name}")
    with model.trace([PROMPT, "Hi"]):
        logits = model.logits
    lens = logit_lens(model, [PROMPT, "Hi"])
    assert torch.equal(lens.logits_of(-1), logits.float())
    assert lens.kl_to_final[-1].abs().max() == 0
    assert lens.kl_to_final[0].max() > 1e-3


def test_where_the_last_layer_is_not_the_model_it_says_so():
    model = nnatlas.load("tiny:hrm_text")  # its stack runs more than once; values are of the first pass
    lens = logit_lens(model, "Hi")
    with model.trace("Hi"):
        logits = model.logits
    assert (lens.logits_of(-1) - logits).abs().max() > 0.1
    assert "first pass" in lens.note and "not the model's own prediction: values are of the first pass" in repr(lens)
    assert logit_lens(nnatlas.load("tiny:llama"), "Hi").note == ""


def test_a_layer_takes_its_own_norm_statistics(model, lens):
    """Llama's readout written out: the stream over its own root mean square, times the gain, through the head."""
    with model.trace([PROMPT, "Hi"]):
        stream = model.layers[1].layer_output
    norm, head = model.norm._module, model.lm_head._module
    rms = stream.pow(2).mean(-1, keepdim=True).add(norm.variance_epsilon).rsqrt()
    expected = stream * rms * norm.weight @ head.weight.T
    torch.testing.assert_close(lens.logits_of(1), expected, atol=1e-5, rtol=1e-5)


def test_axes(model, lens):
    layers, batch, seq = model.num_layers, 2, 10  # a begin token and nine bytes
    assert lens.logits.shape == (layers, batch, seq, model.vocab_size)
    assert lens.top(3).ids.shape == lens.top(3).probabilities.shape == (layers, batch, seq, 3)
    assert lens.probability([5, 6]).shape == lens.rank([5, 6]).shape == (layers, batch, seq, 2)
    assert lens.entropy.shape == lens.kl_to_final.shape == (layers, batch, seq)
    assert lens.values == tuple(f"layers.{i}.layer_output" for i in range(layers))


def test_numbers_are_those_of_the_softmax(lens):
    chances = lens.logits.softmax(-1)
    torch.testing.assert_close(lens.probabilities(), chances)
    best = chances.topk(4)
    assert torch.equal(lens.top(4).ids, best.indices)
    torch.testing.assert_close(lens.probabilities(top=4), best.values)
    torch.testing.assert_close(lens.entropy, -(chances * chances.log()).sum(-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(lens.probability([7, 65])[..., 1], chances[..., 65])
    order = chances.argsort(-1, descending=True)
    assert torch.equal(lens.rank(["A"])[..., 0], (order == 65).int().argmax(-1))
    final = chances[-1]
    expected = (final * (final.log() - chances.log())).sum(-1)
    torch.testing.assert_close(lens.kl_to_final, expected, atol=1e-5, rtol=1e-4)


def test_tokens_are_texts(lens):
    assert lens.tokens[0] == ["<|begin|>", *PROMPT]
    assert lens.tokens[1][-3:] == ["<|begin|>", "H", "i"]
    ids, texts = lens.top(2).ids, lens.top(2).tokens
    assert texts[0][0][3][1] == lens._text(int(ids[0, 0, 3, 1]))


def test_a_row_of_a_batch_equals_the_prompt_alone(model, lens):
    alone = logit_lens(model, "Hi")
    assert lens.mask.sum(-1).tolist() == [10, 3]
    torch.testing.assert_close(lens.logits[:, 1, -3:], alone.logits[:, 0], atol=1e-5, rtol=1e-5)


def test_slices_change_nothing_but_the_last_bits(model, lens, monkeypatch):
    monkeypatch.setattr(sys.modules["nnatlas.readouts.logit_lens"], "CHUNK", 3 * model.vocab_size)
    calls = []
    project = type(model).project_on_vocab
    monkeypatch.setattr(type(model), "project_on_vocab", lambda self, x: calls.append(x.shape[1]) or project(self, x))
    sliced = logit_lens(model, [PROMPT, "Hi"])
    torch.testing.assert_close(sliced.entropy, lens.entropy, atol=1e-5, rtol=1e-5)
    assert max(calls) == 3 and len(calls) == 4 * 7  # 20 positions, three at a time


def test_nothing_large_and_no_graph_is_kept():
    config = nnatlas.load("tiny:llama").config
    module = type(nnatlas.load("tiny:llama")._module)(config)
    assert next(module.parameters()).requires_grad
    lens = logit_lens(nnatlas.load(module), torch.arange(6))
    assert not any(stream.requires_grad for stream in lens.streams)
    assert not lens.logits.requires_grad
    held = [value for value in vars(lens).values() if isinstance(value, torch.Tensor)]
    assert max(value.numel() for value in held) <= 6 * config.hidden_size


def test_other_streams(model):
    names = ["layers.0.layer_input", "layers.*.layer_mid"]
    lens = logit_lens(model, "Hi", names)
    assert lens.values == ("layers.0.layer_input", *(f"layers.{i}.layer_mid" for i in range(4)))
    with model.trace("Hi"):
        first = model.layers[0].layer_input
    torch.testing.assert_close(lens.logits_of(0), model.project_on_vocab(first))
    assert logit_lens(model, "Hi", "layers[-1].layer_output").values == ("layers.3.layer_output",)
    with pytest.raises(InputError, match=r"attention_queries is not a residual stream: \[1, 4, 3, 24\]"):
        logit_lens(model, "Hi", "layers.*.self_attn.attention_queries")
    with pytest.raises(nnatlas.Unavailable):
        logit_lens(nnatlas.load("tiny:cohere2"), "Hi", "layers.*.layer_mid")


def test_k_is_of_the_vocabulary(lens):
    with pytest.raises(InputError, match="between 1 and the vocabulary's 320"):
        lens.top(321)


def test_the_model_is_left_as_it_was(model):
    before = {name: value.clone() for name, value in model._module.state_dict().items()}
    logit_lens(model, "Hi").kl_to_final
    assert all(torch.equal(value, before[name]) for name, value in model._module.state_dict().items())
    assert not any(hooks(module) for module in model._module.modules())


def hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


# --- how it looks ---------------------------------------------------------------------------------------------------


def test_every_line_fits_and_the_last_layer_is_at_the_foot(lens):
    for width in (40, 60, 100):
        lines = text_of(lens, width).split("\n")
        assert max(map(len, lines)) <= width
    rows = text_of(logit_lens(lens.model, "Hi"), 100).split("\n")
    assert rows[0].split() == ["layer", "<|begin|>", "H", "i"]
    assert [row.split()[0] for row in rows[1:5]] == ["0", "1", "2", "3"]


def test_a_long_prompt_folds_into_bands(lens):
    long = logit_lens(lens.model, "abcdefghij" * 4)  # 41 positions
    heads = [line.split()[1:] for line in text_of(long, 60).split("\n") if line.startswith("layer")]
    assert [letter for head in heads for letter in head][1:] == list("abcdefghij" * 4)
    assert len(heads) > 1
    assert max(map(len, heads)) <= 60 // NARROWEST
    shown = "\n".join(band.plain for band in tables(long, 60, last=3))
    assert shown.split("\n")[0].split() == ["layer", "h", "i", "j"]


def test_a_bar_for_a_probability():
    assert [bar(chance) for chance in (0, 0.124, 0.126, 0.5, 0.999, 1)] == list("▁▁▂▅██")


def test_hostile_tokens_are_shown_as_text(model, lens):
    hostile = logit_lens(model, "<script>[bold]\x1b[31m")
    page = hostile._repr_html_()
    assert "<script>[" not in page and "&lt;script&gt;[bold]" in page.replace('</th><th scope="col">', "")
    assert "\x1b" not in page
    heads = text_of(hostile, 400).split("\n")[0]
    assert "\x1b" not in heads and "\\x1b" in heads and "[ " in heads


def test_its_grid_has_tokens_with_their_probabilities(lens):
    pages = lens.grid()
    assert list(pages) == ["0", "1"]
    second = pages["1"]
    assert second.rows.labels == ("0", "1", "2", "3") and second.columns.labels == ("<|begin|>", "H", "i")
    best = lens.top(2)
    assert second.values[2][-1] == pytest.approx(float(best.probabilities[2, 1, -1, 0]))
    assert second.text[2][-1] == best.tokens[2][1][-1][0]
    first, *_, last = second.hover[2][-1].split("\n")
    assert first.startswith(f"{best.probabilities[2, 1, -1, 0]:.4f} ")
    assert (
        last
        == f"entropy {lens.entropy[2, 1, -1]:.3g} nats, KL to the final layer {lens.kl_to_final[2, 1, -1]:.3g} nats"
    )
    alone = logit_lens(lens.model, "Hi").grid()
    assert isinstance(alone, Grid) and alone.text == second.text


def test_a_frame(lens):
    pandas = pytest.importorskip("pandas")
    frame = lens.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 4 * (10 + 3)  # padding is left out
    last = frame[(frame.value == "layers.3.layer_output") & (frame.row == 1)].iloc[-1]
    assert last.probability == pytest.approx(float(lens.top(1).probabilities[-1, 1, -1, 0]))


def test_without_pandas_it_says_what_to_install(lens, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="experiments"):
        lens.frame()


@pytest.mark.real
def test_smollm2_reads_paris_in_its_last_layers(smollm2_folder):
    lens = logit_lens(nnatlas.load("smollm2"), "The Eiffel Tower is in the city of")
    best = lens.top(1)
    said = [best.tokens[i][0][-1][0] for i in range(30)]
    assert said[-2:] == [" Paris", " Paris"] and " Paris" not in said[:20]
    assert lens.probability(" Paris")[-1, 0, -1, 0] == pytest.approx(0.656, abs=5e-3)
    assert lens.rank(" Paris")[:, 0, -1, 0].tolist()[-1] == 0
