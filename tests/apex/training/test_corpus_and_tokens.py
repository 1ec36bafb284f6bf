"""The corpus and its tokens: what is held out, that no text is lost, and errors."""

from __future__ import annotations

import pytest
import torch

from nnatlas.apex.training.corpus import Document, from_files, split, standard_library
from nnatlas.apex.training.tokens import BEGIN, END, Blocks, copying_drill, encode, short_drills, train_tokenizer
from nnatlas.errors import InputError


def test_the_standard_library_is_there_and_its_split_stands():
    training, held_out = split(standard_library())
    names = {d.name for d in training}
    assert {"argparse.py", "json/decoder.py"} <= names
    assert not any("test" in name.split("/") or "site-packages" in name for name in names)
    assert 0.01 < len(held_out) / (len(training) + len(held_out)) < 0.08
    assert {"copyreg.py", "sched.py", "token.py"} <= {d.name for d in held_out}
    assert not names & {d.name for d in held_out}


def test_files_and_folders(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("eins")
    (tmp_path / "two.txt").write_text("zwei")
    documents = from_files([tmp_path / "a", tmp_path / "two.txt"])
    assert [(d.name, d.text) for d in documents] == [("one.txt", "eins"), ("two.txt", "zwei")]
    with pytest.raises(InputError, match="no such file"):
        from_files([tmp_path / "three.txt"])
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        from_files([tmp_path / "b.bin"])


def test_something_is_always_held_out():
    training, held_out = split([Document("x", "a"), Document("y", "b"), Document("z", " ")])
    assert [d.name for d in training + held_out] == ["x", "y"]
    with pytest.raises(InputError, match="at least two non-empty files"):
        split([Document("x", "a")])


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["def f(x):\n    return x\n" * 20], 300)


def test_every_text_comes_back(tokenizer):
    """Bytes never seen in training included: no text is dropped."""
    text = "def né(“quote”):\n\treturn '☃' # \x00"
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == BEGIN
    assert tokenizer.decode(ids[1:]) == text
    assert tokenizer.convert_tokens_to_ids(["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"]) == [0, 1, 2]
    assert tokenizer.padding_side == "left"


def test_documents_lie_between_their_marks(tokenizer):
    ids = encode(tokenizer, ["x", "f"]).tolist()
    assert ids == [BEGIN, *tokenizer("x")["input_ids"][1:], END, BEGIN, *tokenizer("f")["input_ids"][1:], END]


@pytest.mark.parametrize("length, starts", [(128, [0, 64]), (130, [0, 64, 66]), (64, [0]), (40, [0])])
def test_f29_no_token_is_lost(length, starts):
    """128 tokens in blocks of 64 gave one block, and a short text a short one."""
    blocks = Blocks(torch.arange(length), 64)
    assert [int(blocks[i]["input_ids"][0]) for i in range(len(blocks))] == starts
    assert {len(blocks[i]["labels"]) for i in range(len(blocks))} == {min(length, 64)}
    assert int(blocks[len(blocks) - 1]["input_ids"][-1]) == length - 1


def test_a_copying_drill_repeats_a_shuffled_passage():
    block = torch.arange(100, 164)
    drill = copying_drill(block, 10, torch.Generator().manual_seed(0))
    ids, labels = drill["input_ids"], drill["labels"]
    assert torch.equal(ids[10:], ids[:-10])
    assert len(set(ids[:10].tolist())) == 10
    assert set(ids.tolist()) < set(block.tolist())
    assert ids[:10].tolist() != sorted(ids[:10].tolist())
    assert (labels[:10] == -100).all()
    assert torch.equal(labels[10:], ids[10:])


def test_every_eighth_block_is_a_drill_and_always_the_same_one():
    blocks = Blocks(torch.arange(64 * 16), 64, drill_every=8)
    drilled = [i for i in range(16) if (blocks[i]["labels"] == -100).any()]
    assert drilled == [7, 15]
    assert torch.equal(blocks[7]["input_ids"], blocks[7]["input_ids"])
    assert 8 <= int((blocks[15]["labels"] == -100).sum()) <= 32


def test_short_drills_differ_in_length_and_by_seed():
    batch = torch.arange(400 * 128).view(400, 128)
    lengths = (short_drills(batch, 0)["labels"] == -100).sum(-1)
    assert (lengths.min(), lengths.max()) == (4, 47)
    assert 0.4 < (lengths < 14).float().mean() < 0.6  # the geometric middle of 4 and 48
    assert not torch.equal(short_drills(batch, 0)["input_ids"], short_drills(batch, 1)["input_ids"])
