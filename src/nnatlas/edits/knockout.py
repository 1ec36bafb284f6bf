"""Attention knockout: from some positions, others cannot be attended to (Geva et al. 2023, "Dissecting Recall of Factual
Associations in Auto-Regressive Language Models").

The scores of the cut edges are minus infinity, so the rest of the pattern takes their share.  Scores are served on every
attention implementation that goes through transformers' interface; the edited blocks run step by step, the others as loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnatlas.edits.edit import Edit, by_layer, layer_numbers, listed
from nnatlas.edits.where import Positions, Where
from nnatlas.errors import InputError
from nnatlas.model.asked import Numbers, several

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer


@dataclass(eq=False, repr=False)
class Knockout(Edit):
    """Edges of attention that are cut.  Made by `knock_out_attention`."""

    queries: Where
    keys: Where
    layers: list[int] | None
    heads: list[int] | None
    own: bool

    def parts(self) -> list[tuple[str, Function]]:
        """The scores of each layer; where a family gives a sink a column of its own, it comes after the keys."""
        axes: dict[str, tuple[str, ...]] = {}
        for layer in ["*"] if self.layers is None else self.layers:
            axes |= self.model.editing(f"layers.{layer}.self_attn.attention_scores", lambda scores, call: None).axes
        return [(name, partial(self._cut, int(own[-1] != "key"))) for name, own in axes.items()]

    def _cut(self, sinks: int, scores: Tensor, call: ModelCall) -> Tensor:
        """Scores `[batch, num_heads, query, key]` without the edges."""
        edges = self._edges(call).to(scores.device)
        cut = torch.zeros(scores.shape[0], 1, *scores.shape[2:], dtype=torch.bool, device=scores.device)
        # a sliding window's cache has forgotten the columns before the first key
        first = max(0, call.width - (scores.shape[-1] - sinks))
        cut[:, 0, :, : call.width - first] = edges[:, :, first:]
        if self.heads is not None:
            chosen = torch.zeros(scores.shape[1], dtype=torch.bool, device=scores.device)
            chosen[self.heads] = True
            cut = cut & chosen[:, None, None]
        new = scores.masked_fill(cut, -torch.inf)
        self._refuse_nothing_left(cut, new)
        return new

    def _edges(self, call: ModelCall) -> Tensor:
        """Which edges are cut, `[batch, seq, past + seq]`; not that of a token to itself, unless `own`."""
        queries, keys = call.here(self.queries.columns(call)), self.keys.columns(call)
        edges = queries[:, :, None] & keys[:, None, :]
        if not self.own:
            itself = torch.eye(call.seq, call.width, dtype=torch.bool, device=edges.device).roll(call.past, 1)
            edges = edges & ~itself
        return edges

    def _refuse_nothing_left(self, cut: Tensor, scores: Tensor) -> None:
        left = (scores > torch.finfo(scores.dtype).min / 2).any(-1)
        bare = (cut.any(-1) & ~left).nonzero()
        if len(bare):
            row, _, query = bare[0].tolist()
            raise InputError(
                f"the knockout leaves position {query} of row {row} nothing to attend to: leave it a key, its own for "
                "instance (own=False)"
            )

    def describe(self) -> str:
        layers = "every layer" if self.layers is None else listed(self.layers, "layer")
        heads = "all heads" if self.heads is None else listed(self.heads, "head")
        kept = "" if self.own else "; a token may still attend to itself"
        return f"cuts attention {self.keys.words} from queries {self.queries.words}, in {heads} of {layers}{kept}"


def knock_out_attention(
    model: StandardizedTransformer,
    queries: Positions,
    keys: Positions,
    layers: Numbers = None,
    heads: Numbers = None,
    on: str = "both",
    own: bool = False,
) -> Knockout:
    """Keep `queries` from attending to `keys`, while the `with` lasts.

    Positions are counted among each row's real tokens; `keys` are of the prompt, `queries` of what `on` says ("prompt",
    "new" or "both"; -1 is then the prompt's last token and every new one), None is all of them.  `layers` and `heads` are
    all (of the layers that have attention) unless named.  A token keeps the edge to itself unless `own=True`.

    Raises:
        Unavailable: a named layer has no attention, or its scores are not served, with the reason.
        LayoutError: a layer or head that the model does not have.
        InputError: in the forward, where a query is left with nothing to attend to.

    >>> with edits.knock_out_attention(model, queries=-1, keys=[1, 2, 3], layers=range(8, 14)):
    ...     logits = model(ids).logits
    """
    numbers = None if layers is None else layer_numbers(model, layers)
    chosen = None if heads is None else several(heads)
    if chosen is not None:
        for layer in layer_numbers(model, layers) if numbers is not None else _with_attention(model):
            chosen = by_layer(model, {layer: chosen}, "self_attn", "num_heads", "head")[layer]
    return Knockout(model, Where(queries, on), Where(keys, "prompt"), numbers, chosen, own)


def _with_attention(model: StandardizedTransformer) -> list[int]:
    """The layers whose attention scores are served."""
    found = model.editing("layers.*.self_attn.attention_scores", lambda scores, call: None)
    return [int(name.split(".")[1]) for name in found.values]
