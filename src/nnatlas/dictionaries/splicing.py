"""A dictionary in a running model: features read and edited where it belongs, its reconstruction put in the value's place.

What the dictionary misses of a value, value - reconstruction, is its error term.  Kept, a splice whose features are not
edited changes nothing, and one whose features are edited changes only what they say; dropped, the model goes on with what
the dictionary makes of the value, which is how faithful it is (Marks et al. 2024, "Sparse Feature Circuits").
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from nnatlas.errors import InputError, LayoutError

if TYPE_CHECKING:
    from nnatlas.dictionaries.dictionary import Dictionary
    from nnatlas.model import StandardizedTransformer

Change = Callable[[Tensor], "Tensor | None"]
"""What is done to features `batch seq features`: written in place, or returned anew."""


@dataclass
class Code:
    """The features of one value in one run; made by `dictionary.read`.

    `value` is what was read, `features` `batch seq features` what the dictionary makes of it, to be edited.

    >>> with model.trace(prompt):
    ...     code = sae.read(model)
    ...     code.features[..., 123] = 0
    ...     code.write()
    """

    dictionary: Dictionary
    node: Any
    value: Tensor
    features: Tensor
    writes: str

    @property
    def reconstruction(self) -> Tensor:
        """What the features now say, `batch seq d_out`."""
        return self.dictionary.decode(self.features, self.value)

    def write(self, error: bool = True) -> None:
        """Put what the features now say where the dictionary writes, with the error term or without.

        Of a transcoder this reads what the module wrote, so it comes when the forward is there.
        """
        host, name = _host(self.node, self.writes)
        setattr(host, name, spliced(self.dictionary, self.value, getattr(host, name), self.features, error))


def read(dictionary: Dictionary, node: Any, at: str | tuple[str, str] | None) -> Code:
    """Read a value in an open run and encode it."""
    reads, writes = dictionary.place.values(node, at)
    host, name = _host(node, reads)
    value = getattr(host, name).clone()  # as it was read, whatever is done to it later
    return Code(dictionary, node, value, dictionary.encode(value), writes)


class Splice:
    """Every forward of a model through a dictionary, inside `with`: `trace`, `generate`, `collect` and plain calls.

    `edit(features)` may write into the features `batch seq features` or return others; `error` keeps the error term.  It
    can be entered again afterwards, and leaves nothing behind.

    >>> def louder(features):
    ...     features[..., 123] += 5
    >>> with sae.splice(model, louder), model.generate("Once upon a time", max_new_tokens=20) as run:
    ...     pass
    """

    def __init__(
        self, dictionary: Dictionary, model: StandardizedTransformer, edit: Change | None, *, error: bool, at: Any
    ) -> None:
        self.dictionary, self.model, self.edit, self.error = dictionary, model, edit, error
        if edit is not None and not callable(edit):
            raise InputError(
                f"splice(model, edit): edit is a function of features, not {edit!r}; a value is named by at=..."
            )
        self.reads, self.writes = dictionary.place.values(model, at)
        for name in (self.reads, self.writes):
            model.editing(name, self._write)  # what the model lacks is said now, not when the splice is entered
        self._read: Tensor | None = None
        self._open: ExitStack | None = None

    def __enter__(self) -> Self:
        if self._open is not None:
            raise InputError(f"{self!r} stands already; make another one to have it twice")
        with ExitStack() as stack:
            if self.reads != self.writes:
                stack.enter_context(self.model.editing(self.reads, self._keep, of=self))
            stack.enter_context(self.model.editing(self.writes, self._write, of=self))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        standing, self._open, self._read = self._open, None, None
        if standing is not None:
            standing.close()

    def _keep(self, value: Tensor, call: Any) -> None:
        """A transcoder's input, until the forward comes to what it writes."""
        self._read = value.clone()

    def _write(self, value: Tensor, call: Any) -> Tensor:
        source = value if self.reads == self.writes else self._read
        if source is None:
            raise InputError(
                f"{self.writes} is computed before {self.reads} is read: a transcoder writes after what it reads"
            )
        features = self.dictionary.encode(source)
        changed = None if self.edit is None else self.edit(features)
        return spliced(self.dictionary, source, value, features if changed is None else changed, self.error)

    def __repr__(self) -> str:
        error = "error kept" if self.error else "error dropped"
        return f"<{self.dictionary.name} at {self.writes}, {error}{', features edited' if self.edit else ''}>"


def spliced(dictionary: Dictionary, source: Tensor, real: Tensor, features: Tensor, error: bool) -> Tensor:
    """What stands in the place of `real`: what `features` say; with the error term, `real` and what they say beyond the
    features as they were read.
    """
    wanted = torch.Size((*source.shape[:2], dictionary.size))
    if not isinstance(features, Tensor) or features.shape != wanted:
        given = list(features.shape) if isinstance(features, Tensor) else f"a {type(features).__name__}"
        raise LayoutError(f"features of {dictionary.name} are {list(wanted)} here (batch seq features), not {given}")
    said = dictionary.decode(features.to(source.device), source)
    if said.numel() != real.numel():
        raise LayoutError(
            f"{dictionary.name} writes {dictionary.d_out} numbers a token, the value is {list(real.shape)}"
        )
    said = said.reshape(real.shape)
    if error:
        plain = dictionary.decode(dictionary.encode(source), source)
        said = real.to(said.dtype) + (said - plain.reshape(real.shape))
    return said.to(real.dtype)


def _host(node: Any, name: str) -> tuple[Any, str]:
    """The node on which a value hangs, and its own name: `layers.8.mlp.mlp_output` is on `node.layers[8].mlp`."""
    *parts, last = name.split(".")
    for part in parts:
        node = node[int(part)] if part.isdigit() else getattr(node, part)
    return node, last
