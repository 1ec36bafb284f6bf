"""The real one: SmolLM2 says Paris, and its tokenizer cuts and merges as the GGUF file lays down."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import regex
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from nnatlas.pull import manifest, pull

from .conftest import SYMBOLS

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def tokenizer(smollm2_folder):
    return AutoTokenizer.from_pretrained(smollm2_folder)


def test_the_eiffel_tower_is_in_paris(smollm2_folder, tokenizer):
    model = AutoModelForCausalLM.from_pretrained(smollm2_folder)
    assert model.dtype == torch.float32
    with torch.no_grad():
        logits = model(**tokenizer("The Eiffel Tower is in the city of", return_tensors="pt")).logits[0, -1]
    top = logits.softmax(-1).topk(3)
    assert tokenizer.batch_decode(top.indices[:, None]) == [" Paris", " Rome", " Barcelona"]
    assert top.values.tolist() == pytest.approx([0.6562, 0.0377, 0.0321], abs=2e-3)


def test_a_pull_that_has_nothing_to_do_reads_no_weights(smollm2_folder, monkeypatch):
    read = []
    monkeypatch.setattr(manifest, "sha256", lambda path: read.append(path))
    assert pull("smollm2") == smollm2_folder
    assert read == []


def test_the_chat_template_is_the_files(tokenizer):
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert said == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer(said).input_ids.count(1) == 3


class Oracle:
    """Byte-level BPE written out: cut at digits, then by GPT-2's expression, then merge the best-ranked pair."""

    WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def __init__(self, folder) -> None:
        model = json.loads((folder / "tokenizer.json").read_text())["model"]
        self.ids = model["vocab"]
        self.ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}

    def __call__(self, text: str) -> list[int]:
        pieces = [piece for piece in regex.split(r"(\p{N})", text) if piece]
        words = [word for piece in pieces for word in self.WORDS.findall(piece)]
        parts = [part for word in words for part in self.merge([SYMBOLS[b] for b in word.encode()])]
        return [self.ids[part] for part in parts]

    def knows(self, text: str) -> bool:
        """The vocabulary has 235 of the 256 bytes; the others are control characters and begin unused code points."""
        return all(SYMBOLS[b] in self.ids for b in text.encode())

    def merge(self, parts: list[str]) -> list[str]:
        while pairs := [pair for pair in pairwise(parts) if pair in self.ranks]:
            best, merged, i = min(pairs, key=self.ranks.__getitem__), [], 0
            while i < len(parts):
                step = 2 if tuple(parts[i : i + 2]) == best else 1
                merged.append("".join(parts[i : i + step]))
                i += step
            parts = merged
        return parts


@pytest.fixture(scope="module")
def oracle(smollm2_folder):
    return Oracle(smollm2_folder)


@pytest.mark.parametrize(
    "text", ["in 1969, 12345", "a  12", "two  spaces\n\n\tand tabs ", "Don't; it's 3²½", "é日本語 🙂", "   "]
)
def test_tokens_of_difficult_texts(text, tokenizer, oracle):
    assert tokenizer(text).input_ids == oracle(text)
    assert tokenizer.decode(tokenizer(text).input_ids) == text


TEXT = st.text(
    st.one_of(st.sampled_from(" \n\t'0123456789.,stredlvm"), st.characters(exclude_categories=["Cs"])), max_size=40
)


@settings(max_examples=150)
@given(text=TEXT)
def test_tokens_of_any_text(text, tokenizer, oracle):
    assume(oracle.knows(text))
    assert tokenizer(text).input_ids == oracle(text)
    assert tokenizer.decode(tokenizer(text).input_ids) == text
