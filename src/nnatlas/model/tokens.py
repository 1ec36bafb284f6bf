"""Token ids as text, one at a time, the way they stand in a text: leading spaces kept, every id shown as something."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from nnatlas.errors import InputError

WORD_START = "▁"  # how SentencePiece vocabularies write the space before a word


def token_text(tokenizer: Any, token: int) -> str:
    """The text of one token; an id that has none (a row of the embedding beyond the vocabulary) is shown as
    `<id:50300>`.

    Decoding a single id drops the space in front of a word in SentencePiece vocabularies, so the space is put back.
    """
    if tokenizer is None:
        return f"<id:{token}>"
    text = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    written = tokenizer.convert_ids_to_tokens(token)
    if isinstance(written, str) and written.startswith(WORD_START) and not text.startswith(" "):
        text = " " * (len(written) - len(written.lstrip(WORD_START))) + text
    return text or (written if isinstance(written, str) and written else f"<id:{token}>")


def token_ids(tokenizer: Any, tokens: Iterable[str | int] | str | int, size: int | None = None) -> list[int]:
    """Ids of tokens given as ids or as texts that are one token each; with `size`, ids of a vocabulary so large.

    Raises:
        InputError: a text is several tokens, or there is no tokenizer to read it with; or no such id.
    """
    try:
        asked: list[Any] = [tokens] if isinstance(tokens, str | int) else list(tokens)
    except TypeError:  # one id of numpy or torch
        asked = [tokens]
    found = [_token_id(tokenizer, token) for token in asked]
    wrong = next((token for token in found if size is not None and not 0 <= token < size), None)
    if wrong is not None:
        raise InputError(f"token {wrong}: ids of this vocabulary are 0 to {(size or 0) - 1}")
    return found


def _token_id(tokenizer: Any, token: str | int) -> int:
    """The id of a text that is one token, or an id as it is; `InputError` shows the pieces of a text that is several."""
    if not isinstance(token, str):
        try:
            return operator.index(token)
        except TypeError:
            raise InputError(f"token {token!r}: give a text that is one token, or an id") from None
    if tokenizer is None:
        raise InputError(f"this model was loaded without a tokenizer: give the id of {token!r}")
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
        pieces = [token_text(tokenizer, piece) for piece in ids]
        spaced = (
            ""
            if token.startswith(" ") or not token
            else f"; most words are one token with the space before them: {' ' + token!r}"
        )
        raise InputError(f"{token!r} is {len(ids)} tokens, not one: {pieces}{spaced}")
    return int(ids[0])
