"""From GGUF to transformers: held against the model it was written from, and against transformers' own reader."""

from __future__ import annotations

import gguf
import numpy
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from nnatlas.errors import DamagedFile
from nnatlas.pull.convert import convert
from nnatlas.pull.gguf_model import GGUFModel, _halves
from nnatlas.pull.gguf_tokenizer import read_tokenizer

from .conftest import paired, stored_tensors, tiny_model, write_gguf


def read(path) -> dict[str, torch.Tensor]:
    return GGUFModel(str(path)).weights(paired_rotary=True, done=lambda _count: None)


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_comes_back(tmp_path, tied):
    model = tiny_model(tied=tied)
    write_gguf(tmp_path / "a.gguf", model)
    weights = read(tmp_path / "a.gguf")
    assert weights.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(weights[name], parameter) for name, parameter in model.named_parameters())
    assert GGUFModel(str(tmp_path / "a.gguf")).config.tie_word_embeddings is tied


def test_the_config_says_what_the_model_was_made_with(stock):
    got, made = GGUFModel(str(stock.gguf)).config, stock.model.config
    for field in (
        "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "head_dim", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "bos_token_id",
        "eos_token_id", "pad_token_id",
    ):  # fmt: skip
        assert getattr(got, field) == getattr(made, field), field
    assert got.rope_parameters["rope_theta"] == 5000.0
    assert got.architectures == [type(stock.model).__name__]


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16"])
def test_quantized_weights_are_those_of_transformers_own_reader(tmp_path, kind):
    write_gguf(tmp_path / "a.gguf", tiny_model(tied=True), gguf.GGMLQuantizationType[kind])
    (tmp_path / "out").mkdir()
    convert(tmp_path / "a.gguf", tmp_path / "out", name="a", paired_rotary=True)
    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="a.gguf", dtype=torch.float32).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    text = "the tower, in to we"
    tokenizers = [
        AutoTokenizer.from_pretrained(tmp_path / "out"),
        AutoTokenizer.from_pretrained(tmp_path, gguf_file="a.gguf"),
    ]
    assert tokenizers[0](text).input_ids == tokenizers[1](text).input_ids
    assert tokenizers[0].chat_template == tokenizers[1].chat_template


@pytest.mark.parametrize("heads, width", [(1, 2), (3, 8), (2, 6)])
def test_halves_undo_pairs(heads, width):
    rows = numpy.arange(heads * width * 5, dtype=numpy.float32).reshape(heads * width, 5)
    assert numpy.array_equal(_halves(paired(rows, heads), width), rows)
    assert numpy.array_equal(
        paired(rows, heads)[:2, 0], [0, width // 2 * 5]
    )  # the first pair: row 0 and the first half's end


def test_a_field_that_is_not_understood_is_refused(tmp_path):
    write_gguf(tmp_path / "a.gguf", tiny_model(tied=True), expert_count=8)
    with pytest.raises(DamagedFile, match="fields that the conversion does not know: expert_count"):
        GGUFModel(str(tmp_path / "a.gguf"))


@pytest.mark.parametrize("change, said", [("drop", r"blk\.1\.attn_v\.weight"), ("add", r"blk\.1\.attn_q\.bias")])
def test_tensors_over_or_too_few_are_refused(stock, change, said):
    model = GGUFModel(str(stock.gguf))
    if change == "drop":
        del model.tensors["blk.1.attn_v.weight"]
    else:
        model.tensors["blk.1.attn_q.bias"] = model.tensors["blk.1.attn_norm.weight"]
    with pytest.raises(DamagedFile, match=f"disagree on these tensors: {said}$"):
        model.weights(paired_rotary=True, done=lambda _count: None)


def test_a_tensor_of_another_shape_is_refused(stock):
    model = GGUFModel(str(stock.gguf))
    model.tensors["blk.0.attn_v.weight"] = model.tensors["blk.0.attn_q.weight"]
    with pytest.raises(DamagedFile, match=r"attn_v\.weight has shape \(64, 64\).*\(32, 64\)"):
        model.weights(paired_rotary=True, done=lambda _count: None)


@pytest.mark.parametrize("field, value", [("tokenizer.ggml.pre", "unheard-of"), ("tokenizer.ggml.add_bos_token", True)])
def test_another_kind_of_tokenizer_is_refused(stock, field, value):
    fields = GGUFModel(str(stock.gguf)).fields | {field: value}
    with pytest.raises(DamagedFile, match="only smollm is converted"):
        read_tokenizer(fields, 128)


def test_all_names_are_stored(stock):
    assert stored_tensors(stock.model).keys() == GGUFModel(str(stock.gguf)).tensors.keys()
