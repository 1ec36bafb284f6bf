"""A page for one checkpoint: the family's page on its real shape, and numbers measured by running it on a text.

What is measured: the gains of its norms, how long the stream is at the first position and at the others, what share of the
attention goes to the first position, and how large what each block adds is beside the stream it is added to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from nnatlas.encyclopedia.behaviour import Behaviour, behaviour
from nnatlas.encyclopedia.charts import Chart, Series, extremes, present, short
from nnatlas.encyclopedia.outline import Outline
from nnatlas.encyclopedia.outlining import outline_of
from nnatlas.errors import AtlasError, InputError, Unavailable
from nnatlas.families._row import Family
from nnatlas.model import StandardizedTransformer, load

TEXT: Final = (
    "The lighthouse keeper counted the boats each evening. Seven had gone out that morning, and six lay in the harbour. "
    "She lit the lamp, opened the window to the wind, and waited for the seventh to come home."
)
NORMS: Final = ("attention_norm", "q_norm", "k_norm", "attention_post_norm", "mlp_norm", "mlp_post_norm")
PARTS: Final = {
    "attention": "self_attn.attention_output",
    "mixer": "linear_attn.attention_output",
    "MLP": "mlp.mlp_output",
}
LEAST: Final = 4
"""Tokens below which there is nothing to take a median of."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The weights of one norm in every block: their mean by block, and the least and greatest single one of all.

    Weights as they are kept: where a family multiplies by 1 + weight, 0 is the neutral gain, and the note on the family says so.
    """

    role: str
    native: str
    means: tuple[float, ...]
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was run: its outline, the text, and what was measured."""

    name: str
    model_type: str
    family: Family
    outline: Outline
    text: str
    tokens: int
    dtype: str
    charts: tuple[Chart, ...]
    gains: tuple[Gain, ...]
    next_tokens: tuple[tuple[str, float], ...]


def at_hand() -> list[str]:
    """Checkpoints that can be loaded without a network: the bundled one, and those that were pulled."""
    from nnatlas.model.load import BUNDLED
    from nnatlas.pull import CHECKPOINTS
    from nnatlas.pull.cache import home

    return [BUNDLED, *(name for name in CHECKPOINTS if (home() / "checkpoints" / name).is_dir())]


def measure(source: Any, text: str = TEXT, name: str = "") -> Checkpoint:
    """Run a model on a text and measure it.  `source` is a loaded model or anything that `nnatlas.load` takes.

    Errors: `InputError` where the text is too short; whatever loading raises.

    >>> measure("apex-1").charts[0].title
    'Length of the stream'
    """
    model = source if isinstance(source, StandardizedTransformer) else load(source)
    name = name or str(source if isinstance(source, str) else type(model._module).__name__)
    ids = model.tokenizer(text, return_tensors="pt").input_ids if model.tokenizer is not None else None
    if ids is None or ids.shape[1] < LEAST:
        raise InputError(f"a text of at least {LEAST} tokens and a tokenizer are needed to measure {name}")
    return Checkpoint(
        name=name,
        model_type=model.config.model_type,
        family=model._owner.family,
        outline=_outline(model, name),
        text=text,
        tokens=ids.shape[1],
        dtype=str(next(model._module.parameters()).dtype).removeprefix("torch."),
        charts=tuple(_charts(model, text)),
        gains=tuple(_gains(model)),
        next_tokens=_next(model, text),
    )


def _outline(model: StandardizedTransformer, name: str) -> Outline:
    """What only a small run shows is known for types that transformers can build alone."""
    try:
        seen = behaviour(model.config.model_type)
    except (AtlasError, ValueError, KeyError):
        seen = Behaviour()
    return outline_of(model, model.config.model_type, name, "the loaded checkpoint itself", seen)


def _next(model: StandardizedTransformer, text: str) -> tuple[tuple[str, float], ...]:
    """The five likeliest next tokens with their probabilities."""
    with model.trace(text):
        best = model.next_token_probs[0].topk(5)
    return tuple((model.tokenizer.decode([at]), float(p)) for p, at in zip(best.values, best.indices, strict=True))


# -- what is charted ---------------------------------------------------------------------------------------------------


def _charts(model: StandardizedTransformer, text: str) -> Iterator[Chart]:
    """Each chart needs a forward of its own: a value is kept only as the few numbers made from it."""
    stream = _each(model, text, "layer_output", _norms)
    if stream:
        yield _stream_chart(stream)
    if sinks := _each(model, text, "self_attn.attention_probabilities", _first_share):
        yield _sink_chart(sinks)
    yield from _contribution_chart(model, text)


def _each(model: StandardizedTransformer, text: str, value: str, reduce: Any) -> list[Any]:
    """A reduction of one value in every block, None where a block lacks it; empty where all do."""
    found = {}
    with contextlib.suppress(Unavailable, InputError):
        for name, tensor in model.collect(text, [f"layers.*.{value}"]).items():
            found[int(name.split(".")[1])] = reduce(tensor.detach().float())
    return [found.get(block) for block in range(model.num_layers)] if found else []


def _norms(stream: Tensor) -> tuple[float, float]:
    """The stream's length at the first position, and its median over the others, from `[batch seq hidden_size]`.

    A median, since a few positions may be as long as the first and would decide a mean.
    """
    lengths = stream[0].norm(dim=-1)
    return float(lengths[0]), float(lengths[1:].median())


def _first_share(pattern: Tensor) -> float:
    """The mean share of attention that queries after the first give to the first position, from `[batch heads query key]`.

    The first query is left out: it sees nothing but the first position.
    """
    return float(pattern[0, :, 1:, 0].mean())


def _stream_chart(lengths: list[tuple[float, float]]) -> Chart:
    first = Series("position 0", tuple(one[0] if one else None for one in lengths))
    others = Series("median of the others", tuple(one[1] if one else None for one in lengths))
    _, _, at, most = extremes(first)
    beside = others.values[at] or 0.0
    said = f"Position 0 is longest after block {at}, {short(most)} against {short(beside)} at the median of the other positions."
    return Chart("Length of the stream", said, (first, others))


def _sink_chart(shares: list[float | None]) -> Chart:
    series = Series("share", tuple(shares))
    low, least, high, most = extremes(series)
    said = f"Later positions give position 0 from {short(least)} (block {low}) to {short(most)} (block {high}) of their attention."
    return Chart("Attention to position 0", said, (series,))


def _contribution_chart(model: StandardizedTransformer, text: str) -> Iterator[Chart]:
    """How large each contribution is beside the stream that enters its block, at the median position after the first."""
    entering = _each(model, text, "layer_input", _lengths)
    series = []
    for part, value in PARTS.items():
        added = _each(model, text, value, _lengths)
        sizes = tuple(map(_beside, added, entering)) if added and entering else ()
        series += [Series(part, sizes)] if present(sizes) else []
    if series:
        told = "; ".join(f"{one.name} most in block {extremes(one)[2]} ({short(extremes(one)[3])})" for one in series)
        said = f"As lengths, at the median position: {told}."
        yield Chart("What a block adds, beside its input", said, tuple(series))


def _lengths(stream: Tensor) -> Tensor:
    """The length of every position's vector: `[batch seq hidden_size]` to `[seq]`, of the first row."""
    return stream[0].norm(dim=-1)


def _beside(added: Tensor | None, entering: Tensor | None) -> float | None:
    """The median ratio of two lengths over the positions after the first; none where a block has no such part."""
    if added is None or entering is None or added.shape != entering.shape:
        return None
    return float((added / entering)[1:].median())


def _gains(model: StandardizedTransformer) -> Iterator[Gain]:
    """Every norm role that blocks have, with the weights of all blocks."""
    for role in NORMS:
        weights = []
        native = role
        for block in model._owner.blocks:
            bound = block.role(role)
            weight = getattr(bound[0], "weight", None) if isinstance(bound, tuple) else None
            if isinstance(weight, Tensor):
                native = bound[1].rpartition(".")[2]
                weights.append(weight.detach().float())
        if weights:
            ends = torch.stack([torch.stack((one.min(), one.max())) for one in weights])
            yield Gain(
                role,
                native,
                tuple(float(one.mean()) for one in weights),
                float(ends[:, 0].min()),
                float(ends[:, 1].max()),
            )
