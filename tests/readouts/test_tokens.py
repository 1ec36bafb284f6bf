"""Token texts: every id is shown as something, spaces in front of words are kept, and a target is one token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from nnatlas.errors import InputError
from nnatlas.readouts.tokens import token_ids, token_text
from nnatlas.show import visible
from nnatlas.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def pieces() -> PreTrainedTokenizerFast:
    """A vocabulary in SentencePiece's manner, whose decoder strips the first space of what it decodes."""
    core = Tokenizer(models.WordLevel({"▁Paris": 0, "is": 1, "▁▁two": 2, "▁": 3, "<unk>": 4}, unk_token="<unk>"))
    core.decoder = decoders.Metaspace(prepend_scheme="always")
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def test_a_word_keeps_the_space_that_decoding_drops(pieces):
    assert pieces.decode([0]) == "Paris"
    assert [token_text(pieces, token) for token in range(4)] == [" Paris", "is", "  two", " "]


def test_an_id_beyond_the_vocabulary_is_shown_as_its_number(pieces):
    assert token_text(pieces, 77) == "<id:77>"
    assert token_text(None, 5) == "<id:5>"


def test_bytes_and_specials_of_the_byte_tokenizer():
    tokenizer = byte_tokenizer()
    assert [token_text(tokenizer, token) for token in (32, 65, 10, 257, 300)] == [
        " ",
        "A",
        "\n",
        "<|begin|>",
        "<id:300>",
    ]


def test_targets_are_ids_or_texts_of_one_token():
    tokenizer = byte_tokenizer()
    assert token_ids(tokenizer, ["A", 7, " "]) == [65, 7, 32]
    assert token_ids(tokenizer, "A") == [65]
    with pytest.raises(InputError, match=r"'AB' is 2 tokens, not one: \['A', 'B'\]; .*' AB'"):
        token_ids(tokenizer, ["AB"])
    with pytest.raises(InputError, match="give the id of 'A'"):
        token_ids(None, "A")
    assert token_ids(tokenizer, np.int64(7)) == token_ids(tokenizer, torch.tensor(7), 8) == [7]
    for wrong in (8, -1):
        with pytest.raises(InputError, match=rf"token {wrong}: ids of this vocabulary are 0 to 7"):
            token_ids(tokenizer, [7, wrong], 8)
    for wrong in (1.5, [None]):
        with pytest.raises(InputError, match="give a text that is one token, or an id"):
            token_ids(tokenizer, wrong)


@pytest.mark.parametrize(
    "text, shown",
    [
        (" Paris", "·Paris"),
        ("\n\n\t", "↵↵⇥"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a·b", "a\\xb7b"),  # a real middle dot is told from a space
        ("\u202eevil\u200b", "\\u202eevil\\u200b"),
        ("[bold]<b>é日", "[bold]<b>é日"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_made_visible(text, shown):
    assert visible(text) == shown
