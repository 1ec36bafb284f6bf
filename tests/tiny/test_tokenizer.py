"""Bytes in, bytes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnatlas.tiny import byte_tokenizer, tiny_config

TOKENIZER = byte_tokenizer()
CHARACTERS = st.characters(exclude_categories=["Cs"])  # lone surrogates are not text: UTF-8 cannot write them


@given(st.text(CHARACTERS).filter(lambda text: "<|" not in text))
def test_any_text_is_its_own_bytes_and_comes_back_exactly(text):
    ids = TOKENIZER(text, add_special_tokens=False).input_ids
    assert bytes(ids) == text.encode()
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.decode(TOKENIZER(text).input_ids, skip_special_tokens=True) == text


def test_a_begin_token_comes_first_unless_told_otherwise():
    assert TOKENIZER("a").input_ids == [257, 97]
    assert TOKENIZER("a", add_special_tokens=False).input_ids == [97]


def test_the_shorter_row_of_a_batch_is_padded_on_the_left():
    batch = TOKENIZER(["abc", "d"], padding=True)
    assert batch.input_ids == [[257, 97, 98, 99], [256, 256, 257, 100]]
    assert batch.attention_mask == [[1, 1, 1, 1], [0, 0, 1, 1]]


def test_special_tokens_are_those_of_the_tiny_configs():
    config = tiny_config("llama", {"pad_token_id": 256})
    assert TOKENIZER.bos_token_id == config.bos_token_id
    assert TOKENIZER.eos_token_id == config.eos_token_id
    assert TOKENIZER.pad_token_id == config.pad_token_id


def test_a_chat_is_written_out():
    chat = [{"role": "user", "content": "Hi"}]
    assert TOKENIZER.apply_chat_template(chat, tokenize=False) == "user:\nHi<|end|>"
    ids = TOKENIZER.apply_chat_template(chat, add_generation_prompt=True).input_ids
    assert TOKENIZER.decode(ids) == "user:\nHi<|end|>assistant:\n"


@pytest.mark.parametrize("size", [259, 320])
def test_every_id_of_the_vocabulary_decodes(size):
    tokenizer = byte_tokenizer(size)
    assert len(tokenizer) == size
    assert all(tokenizer.decode([token]) for token in range(size))
