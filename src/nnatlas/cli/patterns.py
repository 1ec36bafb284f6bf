"""`nnatlas patterns`: what each head attends to, and which heads do what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Html, Json, Png, deliver, from_stdin, progress
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.readouts import AttentionPatterns, HeadScores

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROMPT]",
        help='The text to read, "-" for stdin; without it, every head is scored instead.',
        callback=from_stdin,
    ),
]
Layers = Annotated[
    list[int] | None,
    typer.Option("--layer", metavar="N", help="Show this layer only, -1 for the last; may be repeated."),
]
Average = Annotated[bool, typer.Option("--average", help="Average over the heads of each layer.")]


@models.takes_model
def patterns(
    of: models.Loaded,
    prompt: Prompt = None,
    layer: Layers = None,
    average: Average = False,
    json: Json = False,
    html: Html = None,
    png: Png = None,
) -> None:
    """Show what each attention head attends to, or score the heads.

    With a prompt: each head's weights, a row for each token that attends.  Without one: how much each head attends as
    previous-token, duplicate-token and induction heads do, on random tokens said twice.
    """
    if prompt is None and (layer or average):
        raise InputError("--layer and --average are of a prompt's patterns: give a PROMPT")
    loaded = of.model
    with progress("reading attention"):
        from nnatlas.readouts import attention_patterns, head_scores

        if prompt is None:
            scores = head_scores(loaded)
        else:
            found = attention_patterns(loaded, prompt, layer or None, average=average)
    if prompt is None:
        deliver(scores, lambda: {"model": of.name, **_scores(scores)}, json, html, png)
    else:
        deliver(found, lambda: {"model": of.name, "prompt": prompt, **_patterns(found)}, json, html, png)


def _scores(found: HeadScores) -> dict[str, Any]:
    from nnatlas.readouts.head_scores import SCORES

    plain = lambda values: [[None if one != one else one for one in row] for row in values.tolist()]
    return {"scores": {name: plain(found[name]) for name in SCORES}}


def _patterns(found: AttentionPatterns) -> dict[str, Any]:
    tokens = found.prompts.axis(0).labels
    layers = [{"layer": layer, "heads": pattern[0].tolist()} for layer, pattern in found.patterns.items()]
    return {"tokens": tokens, "averaged": found.averaged, "layers": layers}
