"""The logit lens: what each layer's residual stream would say if it were the last (nostalgebraist 2020).

Every stream goes through the model's own readout, `project_on_vocab`: the final norm takes its statistics from that
very stream, and every scale and cap of the family applies, so the last layer says exactly what the model says.

Nothing of size `layers batch seq vocab_size` is kept.  The streams are, `layers batch seq hidden_size` numbers; what is
asked of them is computed from a slice of logits at a time, at most `CHUNK` numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.grid import Shown
from nnatlas.model.asked import at_least, value_names, within
from nnatlas.model.prompts import read
from nnatlas.readouts.tokens import token_ids, token_text

if TYPE_CHECKING:
    from nnatlas.grid import Grid, Pages
    from nnatlas.model import StandardizedTransformer

CHUNK = 2**26
"""Logits held at once: 256 MB of float32."""


@dataclass(frozen=True)
class Top:
    """The k most likely tokens, each field `layers batch seq k`; `tokens` are texts in nested lists."""

    ids: Tensor
    probabilities: Tensor
    tokens: list[Any]


@dataclass(frozen=True, repr=False)
class LogitLens(Shown):
    """What every layer would say at every position.  Made by `logit_lens`.

    Its results have the axes `layers batch seq ...`, on the CPU, in float32.  `layers` counts `values`, the names of
    the streams in the order they were asked for; `seq` counts positions of the padded batch, of which `mask` `[batch,
    seq]` tells the real ones.  Logarithms are natural, so entropy and divergence are in nats.

    Printing it shows the most likely token per layer and position; a notebook and `.html(path)` an interactive table.
    """

    model: StandardizedTransformer = field(repr=False)
    values: tuple[str, ...]
    input_ids: Tensor | None
    mask: Tensor
    streams: tuple[Tensor, ...] = field(repr=False)
    final: Tensor = field(repr=False)

    # -- what is read ----------------------------------------------------------------------------------------------

    @cached_property
    def tokens(self) -> list[list[str]]:
        """The texts of the prompt's tokens, `batch seq`, padding included."""
        if self.input_ids is None:
            return [[""] * self.mask.shape[1]] * self.mask.shape[0]
        return [[self._text(token) for token in row] for row in self.input_ids.tolist()]

    @property
    def note(self) -> str:
        """Why the last layer is not what the model says, on the few families where it is not; else empty."""
        return str(self.model.family.breaks.get("head", ""))

    def logits_of(self, layer: int) -> Tensor:
        """The logits of one stream, `batch seq vocab_size`; `layer` counts `values`, -1 is the last."""
        at = within(layer, len(self.streams), "layer", " of this lens", InputError)
        return self._over([self.streams[at]], lambda logits, _: logits)[0]

    @property
    def logits(self) -> Tensor:
        """All logits, `layers batch seq vocab_size`: large, and made anew at each call; see `logits_of`."""
        return self._over(self.streams, lambda logits, _: logits)

    def probabilities(self, top: int | None = None) -> Tensor:
        """Softmax of the logits, `layers batch seq vocab_size`; with `top` that many, the largest, instead."""
        if top is not None:
            return self.top(top).probabilities
        return self._over(self.streams, lambda logits, _: logits.softmax(-1))

    def top(self, k: int = 5) -> Top:
        """The `k` most likely tokens of every layer and position, best first."""
        size = self.model.vocab_size
        at_least(1, k=k)
        if k > size:
            raise InputError(f"top {k}: k is between 1 and the vocabulary's {size}")
        known = self.__dict__.setdefault("_tops", {})
        if k not in known:
            both = self._over(self.streams, lambda logits, _: _top(logits, k))
            ids = both[..., 1].long()
            known[k] = Top(ids, both[..., 0].float(), _map(self._text, ids.tolist()))
        found: Top = known[k]
        return found

    def probability(self, targets: Iterable[str | int] | str | int) -> Tensor:
        """The probability of chosen tokens (ids, or texts of one token), `layers batch seq targets`."""
        chosen = self._chosen(targets)
        return self._over(self.streams, lambda logits, _: logits.softmax(-1)[..., chosen])

    def rank(self, targets: Iterable[str | int] | str | int) -> Tensor:
        """How many tokens are more likely than each chosen one (0: it is the best), `layers batch seq targets`."""
        chosen = self._chosen(targets)
        count = lambda logits, _: torch.stack([(logits > logits[:, [one]]).sum(-1) for one in chosen], -1)
        return self._over(self.streams, count)

    @cached_property
    def entropy(self) -> Tensor:
        """Entropy of each prediction, `layers batch seq`, in nats."""
        return self._over(self.streams, lambda logits, _: torch.special.entr(logits.softmax(-1)).sum(-1))

    @cached_property
    def kl_to_final(self) -> Tensor:
        """KL(final ‖ layer), what is lost by stopping here, `layers batch seq`, in nats (Belrose et al. 2023)."""
        return self._over(self.streams, _divergence, self.final)

    def frame(self) -> Any:
        """A pandas DataFrame with a row for each stream, prompt and position that is not padding."""
        from nnatlas.readouts.lens_view import frame

        return frame(self)

    # -- how it is computed ----------------------------------------------------------------------------------------

    def _over(
        self, streams: Iterable[Tensor], ask: Callable[[Tensor, Tensor], Tensor], beside: Tensor | None = None
    ) -> Tensor:
        """Ask something of every stream's logits `[rows, vocab_size]`, a slice at a time; stacked along `layers`.

        `beside` is a stream whose logits are handed in as well.
        """
        asked = [self._one(stream, ask, beside) for stream in streams]
        return torch.stack(asked)

    def _one(self, stream: Tensor, ask: Callable[[Tensor, Tensor], Tensor], beside: Tensor | None) -> Tensor:
        rows = max(1, CHUNK // self.model.vocab_size)
        slices = zip(_slices(stream, rows), _slices(stream if beside is None else beside, rows), strict=True)
        found = []
        with torch.no_grad():
            for own, other in slices:
                logits = self._project(own)
                found.append(ask(logits, logits if beside is None else self._project(other)).cpu())
        return torch.cat(found).unflatten(0, stream.shape[:2])

    def _project(self, stream: Tensor) -> Tensor:
        return self.model.project_on_vocab(stream[None].to(self.final.device))[0].float()

    def _chosen(self, targets: Any) -> list[int]:
        ids = token_ids(self.model.tokenizer, targets, self.model.vocab_size)
        if not ids:
            raise InputError("no token is named: give texts of one token each, or ids")
        return ids

    def _text(self, token: int) -> str:
        known = self.__dict__.setdefault("_texts", {})
        if token not in known:
            known[token] = token_text(self.model.tokenizer, token)
        return known[token]

    # -- how it looks ----------------------------------------------------------------------------------------------

    def grid(self) -> Grid | Pages:
        """The probability of each layer's best token, with the token as text: a grid, or a page for each prompt."""
        from nnatlas.readouts.lens_view import grid

        return grid(self)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from nnatlas.readouts.lens_view import tables

        yield from tables(self, options.max_width)


def logit_lens(
    model: StandardizedTransformer, prompt: Any, values: str | Iterable[str] = "layers.*.layer_output", **keywords: Any
) -> LogitLens:
    """Read residual streams out as next-token predictions.

    Args:
        model: any model that `nnatlas.load` made.
        prompt: one prompt or several, in every form that `model.trace` takes, with its keywords.
        values: names or patterns of residual streams, `batch seq hidden_size`: `"layers.*.layer_mid"` looks between
            attention and MLP, `["layers.0.layer_input", "layers.*.layer_output"]` begins with the embeddings.

    Raises:
        InputError: a value is not a residual stream, or the prompt cannot be run.
        Unavailable: the family has no such value.

    Example:
        >>> lens = logit_lens(model, "The Eiffel Tower is in the city of")
        >>> lens.top(1).tokens[-1][0][-1]  # last layer, first prompt, last position
        [' Paris']
        >>> lens.rank(" Paris")[:, 0, -1, 0]  # layer by layer
    """
    names = value_names(values)
    last = f"layers.{model.num_layers - 1}.layer_output"
    found, prompts = read(model, prompt, [*names, last], **keywords)
    final = found[last]
    if not any(_covers(name, last) for name in names):
        del found[last]
    for name, stream in found.items():
        _check_stream(name, stream, final)
    return LogitLens(model, tuple(found), prompts.input_ids, prompts.mask, tuple(found.values()), final)


def _covers(pattern: str, name: str) -> bool:
    """Whether a pattern, as `collect` takes them, asks for the last block's value `name`."""
    asked = pattern.replace("[", ".").replace("]", "").replace("layers.-1.", "layers.*.")
    return fnmatchcase(name, asked)


def _check_stream(name: str, value: Any, final: Tensor) -> None:
    if not isinstance(value, Tensor) or value.shape != final.shape:
        shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"{name} is not a residual stream: {shape}, where a stream is {list(final.shape)}")


def _top(logits: Tensor, k: int) -> Tensor:
    """Probabilities and ids of the k best, `rows k 2`, in doubles, which hold every id exactly."""
    best = logits.softmax(-1).topk(k)
    return torch.stack([best.values.double(), best.indices.double()], -1)


def _divergence(logits: Tensor, final: Tensor) -> Tensor:
    true = final.log_softmax(-1)
    return (true.exp() * (true - logits.log_softmax(-1))).sum(-1).clamp(min=0)


def _slices(stream: Tensor, rows: int) -> tuple[Tensor, ...]:
    return stream.flatten(0, 1).split(rows)


def _map(function: Callable[[Any], Any], nested: Any) -> Any:
    return [_map(function, one) for one in nested] if isinstance(nested, list) else function(nested)
