"""Models of a type that has no row: bound by what their modules do in a probe forward, and only as far as the laws hold.

`load` comes here by itself.  A row is guessed (`row`, from the roles that `roles` finds in a `probe`), then put on trial
(`proof`): a value that breaks a law is left out, with that law as the reason; a model whose stream cannot be proven is
refused.  `draft` is for `nnatlas draft`, which writes the guess down as the start of a family file.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from nnatlas.guess.proof import prove
from nnatlas.guess.row import Draft, draft
from nnatlas.model import StandardizedTransformer

__all__ = ["Draft", "GuessedFamily", "draft", "guess", "prove"]


class GuessedFamily(UserWarning):
    """A model's row was guessed and proven by running it; nobody has read its code."""


def guess(module: nn.Module, tokenizer: Any = None) -> StandardizedTransformer:
    """Bind a built module of an unknown type by its structure.

    It takes some forwards and backwards of a short prompt, and warns (`GuessedFamily`) with what could not be proven.
    Errors: `UnsupportedFamily`, naming the law that does not hold.

    >>> model = nnatlas.load(my_model)  # a type that nnatlas has no row for
    """
    row = draft(module)
    model, missed = prove(module, row, tokenizer)
    without = sorted({finding.value for finding in missed})
    said = f" Not proven: {', '.join(without)}." if without else ""
    warnings.warn(
        f"no row covers model_type {row.covers!r}: its row was guessed from what its modules do, and proven by the laws."
        f"{said} `nnatlas draft {row.covers}` writes the guess down; family= takes a row of your own",
        GuessedFamily,
        stacklevel=3,
    )
    return model
