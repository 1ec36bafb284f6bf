"""Token ids as text, one at a time, the way they stand in a text: leading spaces kept, every id shown as something."""

from __future__ import annotations

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


def token_ids(tokenizer: Any, tokens: Iterable[str | int] | str | int) -> list[int]:
    """Ids of tokens given as ids or as texts that are one token each.

    Raises:
        InputError: a text is several tokens, or there is no tokenizer to read it with.
    """
    return [_token_id(tokenizer, token) for token in ([tokens] if isinstance(tokens, str | int) else tokens)]


def _token_id(tokenizer: Any, token: str | int) -> int:
    if not isinstance(token, str):
        return int(token)
    if tokenizer is None:
        raise InputError(f"this model was loaded without a tokenizer: give the id of {token!r}")
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
        pieces = [token_text(tokenizer, piece) for piece in ids]
        spaced = (
            "" if token.startswith(" ") else f"; most words are one token with the space before them: {' ' + token!r}"
        )
        raise InputError(f"{token!r} is {len(ids)} tokens, not one: {pieces}{spaced}")
    return int(ids[0])
