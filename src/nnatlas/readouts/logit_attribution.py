"""Direct logit attribution: how much each layer, head or neuron writes, itself, towards a token (Elhage et al. 2021).

The last stream is a sum of what the blocks wrote (the row's identity says which sum), and the readout takes it to logits.
With the final norm's scale held at the value it has, and of a cap its ratio, the readout is linear, so every summand has
a share of the logit and the shares sum to it.  A norm behind a sublayer is held likewise where heads are told apart.
Effects through later layers are not in a share: patching measures those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from nnatlas.errors import InputError, Unavailable
from nnatlas.grid import Grid, Pages, Shown
from nnatlas.model.asked import at_least, whole, within
from nnatlas.model.held import held_readout
from nnatlas.model.stream import Part, Stream, read_stream
from nnatlas.model.sublayers import WITHIN, shares_within
from nnatlas.model.tokens import token_ids, token_text
from nnatlas.readouts.expert_attribution import Mixtures

if TYPE_CHECKING:
    from nnatlas.bind.tree import Host
    from nnatlas.model import StandardizedTransformer

By = Literal["layer", "head", "neuron", "expert", "expert_neuron"]
Token = str | int | Iterable[str | int]
HELD = "the final norm's scale (and a cap's ratio) is held at its value; shares are of direct effects only"


@dataclass(frozen=True, repr=False)
class LogitAttribution(Shown):
    """Shares of a logit, or of the difference of two.  Made by `logit_attribution`.

    `values` has the axes `batch layers kinds`, or heads, neurons, experts, or neurons of experts, NaN where a block has none;
    `columns` names the last axis.  `rest` holds what stands in no column, each `[batch]`: "start" (what entered the first
    block), "constant" (the biases of norm and head), and by head or neuron the other sublayers and the biases.  `total`
    `[batch]` is the model's own logit or difference.  All on the CPU, in float32.
    """

    by: By
    values: Tensor
    columns: tuple[str, ...]
    rest: dict[str, Tensor]
    total: Tensor
    targets: tuple[str, ...]
    missing: dict[int, str]

    @property
    def sum(self) -> Tensor:
        """All shares together, `[batch]`: `total`, but for rounding."""
        return self.values.nan_to_num().flatten(1).sum(1) + torch.stack(list(self.rest.values())).sum(0)

    def top(self, k: int = 10, row: int = 0) -> list[tuple[int, str, float]]:
        """The `k` shares that are largest in size: layer, column and share.

        >>> logit_attribution(model, prompt, by="head").top(1)
        [(29, '0', -1.68...)]
        """
        at_least(0, k=k)
        row = within(row, len(self.values), "row", "", InputError)
        flat = self.values[row].flatten()
        best = flat.abs().nan_to_num(nan=-1.0).topk(min(k, int((~flat.isnan()).sum())))
        places = [divmod(at, len(self.columns)) for at in best.indices.tolist()]
        return [(layer, self.columns[column], float(self.values[row, layer, column])) for layer, column in places]

    def grid(self) -> Grid | Pages:
        """Layers by kinds or heads; of neurons the strongest of every layer.  A page for each of several prompts."""
        from nnatlas.readouts.attribution_view import grid

        return grid(self)


def logit_attribution(
    model: StandardizedTransformer,
    prompt: Any,
    target: Token | None = None,
    against: Token | None = None,
    *,
    by: By = "layer",
    position: int = -1,
    **keywords: Any,
) -> LogitAttribution:
    """Share a logit out to what wrote it.

    Args:
        model: any model that `nnatlas.load` made.
        prompt: one prompt or several, in every form that `model.trace` takes, with its keywords.
        target: the token whose logit is shared out, an id or a text of one token; a list gives each prompt its own; by
            default each prompt's most likely next token.
        against: a token whose logit is subtracted: shares of a logit difference tell more, since a logit alone is also
            moved by what moves all logits.
        by: "layer" shares it out to attention and MLP of every layer, "head" to attention heads, "neuron" to neurons of
            dense MLPs, "expert" to the experts of mixtures, "expert_neuron" to the neurons of each, column "3.17".
        position: where the prediction is read, counted among each row's real tokens; -1 is the last.

    Raises:
        Unavailable: the family's stream is no sum (with its reason), or no block has heads or neurons to tell apart.
        InputError: a text is not one token, or there are not as many tokens as prompts.

    Example:
        >>> found = logit_attribution(model, "The Eiffel Tower is in the city of", " Paris", " Rome")
        >>> found.values[0, 24], found.columns  # what layer 24 wrote towards " Paris" and away from " Rome"
        (tensor([-0.44...,  1.72...]), ('attention', 'mlp'))
    """
    if by not in get_args(By):
        raise InputError(f"by {by!r}: it is one of {', '.join(get_args(By))}")
    whole(position, "position")
    inside = [f"{WITHIN[by].host}.{WITHIN[by].value}"] if by in WITHIN else []
    stream = read_stream(model, prompt, position, inside, **keywords)
    pairs = _pairs(model, stream, target, against)
    direction, constant = _read_along(model, stream.final, pairs)
    parts = stream.parts(direction)
    if by == "layer":
        values, columns, rest, missing = _by_layer(stream, parts)
    else:
        values, columns, rest, missing = _by_within(
            stream, parts, *_telling(model, stream, prompt, by, position, keywords)
        )
    total, said = _picked(stream.logits.double(), pairs), _said(model, pairs)
    outside = {name: amount.cpu().float() for name, amount in {**rest, "constant": constant}.items()}
    return LogitAttribution(by, values.cpu().float(), columns, outside, total.cpu().float(), said, missing)


# -- what is shared out ------------------------------------------------------------------------------------------------


def _pairs(model: StandardizedTransformer, stream: Stream, target: Token | None, against: Token | None) -> Tensor:
    """Each row's target and, if there is one, the token it is compared with: `[batch, 1 or 2]`."""
    best = stream.logits.argmax(-1)
    chosen = [best if target is None else _one_each(model, target, best)]
    chosen += [] if against is None else [_one_each(model, against, best)]
    if against is not None and (same := (chosen[0] == chosen[1]).nonzero().flatten().tolist()):
        text = repr(token_text(model.tokenizer, int(chosen[0][same[0]])))
        default = ", which is what the model predicts" if target is None else ""
        raise InputError(f"target and against are both {text}{default}, so there is no difference to share out")
    return torch.stack(chosen, -1)


def _one_each(model: StandardizedTransformer, tokens: Token, rows: Tensor) -> Tensor:
    ids = token_ids(model.tokenizer, tokens, model.vocab_size)
    if len(ids) not in (1, len(rows)):
        raise InputError(f"{len(ids)} tokens for {len(rows)} prompts: give one for all, or one for each")
    return torch.tensor(ids, device=rows.device).expand(len(rows))


def _picked(logits: Tensor, pairs: Tensor) -> Tensor:
    """The logit of each row's target, less that of the other token, `[batch]`."""
    found = logits.gather(-1, pairs)
    return found[:, 0] - found[:, 1] if pairs.shape[1] == 2 else found[:, 0]


def _read_along(model: StandardizedTransformer, final: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The direction along which the held readout reads a stream as the chosen logit, and what it adds to all."""
    at = final.detach()[:, None].requires_grad_()
    with torch.enable_grad():
        chosen = _picked(held_readout(model._owner, at.detach())(at)[:, 0], pairs)
    (slope,) = torch.autograd.grad(chosen.sum(), at)
    direction = slope[:, 0].double()
    return direction, chosen.detach().double() - (direction * final.double()).sum(-1)


def _said(model: StandardizedTransformer, pairs: Tensor) -> tuple[str, ...]:
    """What is shared out, in words, for each row."""
    text = lambda token: repr(token_text(model.tokenizer, token))
    return tuple(f"logit of {' less that of '.join(map(text, row))}" for row in pairs.tolist())


# -- to what it is shared out ------------------------------------------------------------------------------------------

Laid = tuple[Tensor, tuple[str, ...], dict[str, Tensor], dict[int, str]]


def _by_layer(stream: Stream, parts: list[Part]) -> Laid:
    """Shares by block and kind of sublayer, `[batch, layers, kinds]`; what belongs to no block is the rest."""
    kinds = tuple(dict.fromkeys(part.kind for part in parts if part.block is not None))
    values = torch.full((len(stream.final), len(stream.blocks), len(kinds)), torch.nan, dtype=torch.float64)
    rest: dict[str, Tensor] = {}
    for part in parts:
        if part.block is None:
            rest[part.kind] = part.amount
        else:
            values[:, part.block, kinds.index(part.kind)] = part.amount.cpu()
    return values, kinds, rest, _hidden(stream, parts)


def _hidden(stream: Stream, parts: list[Part]) -> dict[int, str]:
    """The blocks whose parts cannot be told, and why: some families norm the stream itself on its way."""
    first = min((part.block for part in parts if part.block is not None), default=0)
    norms = {part.kind for part in parts if part.block == first} - {"attention", "mlp", "mixer"}
    reason = f"the stream itself is normed in {stream.blocks[first].name}: {', '.join(norms)} holds what came before"
    return dict.fromkeys(range(first), reason)


Tell = Callable[["Host", Part], Tensor]
"""The shares of what is told apart in one sublayer's part, `[batch, ...]`."""


def _telling(
    model: StandardizedTransformer, stream: Stream, prompt: Any, by: str, position: int, keywords: dict[str, Any]
) -> tuple[str, str, Tell]:
    """Which sublayers are taken apart, into what, and how."""
    if by in WITHIN:
        return WITHIN[by].kind, by, lambda block, part: shares_within(block, stream, part, by)
    mixtures = Mixtures(model, prompt, position, keywords)
    if by == "expert":
        return "mlp", by, lambda block, part: mixtures.shares(block, part).sum(-1)
    return "mlp", by, mixtures.shares


def _by_within(stream: Stream, parts: list[Part], kind: str, by: str, tell: Tell) -> Laid:
    """Shares of what is within sublayers, `[batch, layers, most of them in a block]`; whole sublayers and biases are the rest."""
    found: dict[int, Tensor] = {}
    missing, rest = _hidden(stream, parts), dict[str, Tensor]()
    for part in parts:
        left = part.amount
        if part.block is not None and part.kind == kind:
            try:
                shares = tell(stream.blocks[part.block], part)
                found[part.block], left = shares.cpu(), left - shares.to(left.device).flatten(1).sum(-1)
            except Unavailable as why:
                missing[part.block] = why.reason
        rest[part.kind] = rest.get(part.kind, torch.zeros_like(left)) + left
    if not found:
        raise Unavailable(next(iter(missing.values()), f"no block of this model has {by}s to tell apart"))
    sizes = torch.tensor([one.shape[1:] for one in found.values()]).amax(0).tolist()
    values = torch.full((len(stream.final), len(stream.blocks), *sizes), torch.nan)
    for block, shares in found.items():
        values[:, block][(slice(None), *map(slice, shares.shape[1:]))] = shares.float()
    columns = (".".join(map(str, at)) for at in product(*map(range, sizes)))
    return values.flatten(2), tuple(columns), rest, missing
