"""`nnatlas patterns`: what each head attends to, and which heads do what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Html, Json, deliver, progress

if TYPE_CHECKING:
    from nnatlas.readouts import AttentionPatterns, HeadScores

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROMPT]", help='The text to read, "-" for stdin; without it, every head is scored instead.'
    ),
]
Layers = Annotated[
    list[int] | None,
    typer.Option("--layer", metavar="N", help="Show this layer only, -1 for the last; may be repeated."),
]
Average = Annotated[bool, typer.Option("--average", help="Average over the heads of each layer.")]


def patterns(
    model: models.Model,
    prompt: Prompt = None,
    layer: Layers = None,
    average: Average = False,
    json: Json = False,
    html: Html = None,
    dtype: models.Dtype = None,
    device: models.Device = None,
    attn: models.Attention = None,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """Show what each attention head attends to, or score the heads.

    With a prompt: each head's weights, a row for each token that attends.  Without one: how much each head attends as
    previous-token, duplicate-token and induction heads do, on random tokens said twice.
    """
    loaded = models.load(
        model, dtype=dtype, device=device, attn=attn, revision=revision, trust_remote_code=trust_remote_code
    )
    with progress("reading attention"):
        from nnatlas.readouts import attention_patterns, head_scores

        if prompt is None:
            scores = head_scores(loaded)
        else:
            text = sys.stdin.read() if prompt == "-" else prompt
            found = attention_patterns(loaded, text, layer or None, average=average)
    if prompt is None:
        deliver(scores, lambda: {"model": model, **_scores(scores)}, json, html)
    else:
        deliver(found, lambda: {"model": model, "prompt": text, **_patterns(found)}, json, html)


def _scores(found: HeadScores) -> dict[str, Any]:
    from nnatlas.readouts.head_scores import SCORES

    plain = lambda values: [[None if one != one else one for one in row] for row in values.tolist()]
    return {"scores": {name: plain(found[name]) for name in SCORES}}


def _patterns(found: AttentionPatterns) -> dict[str, Any]:
    tokens = found.prompts.axis(0).labels
    layers = [{"layer": layer, "heads": pattern[0].tolist()} for layer, pattern in found.patterns.items()]
    return {"tokens": tokens, "averaged": found.averaged, "layers": layers}
