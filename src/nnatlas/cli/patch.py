"""`nnatlas patch`: which values carry the difference between two prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Html, Json, Png, deliver, progress
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.patching import Agreement, Patching

Clean = Annotated[
    list[str], typer.Option("--clean", metavar="TEXT", help="The prompt with the right answer; may be repeated.")
]
Corrupted = Annotated[
    list[str],
    typer.Option("--corrupted", metavar="TEXT", help="Its counterpart, of equally many tokens; may be repeated."),
]
Answer = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="TOKEN",
        help="The right answer, one token (or one a pair); by default what the model predicts after the clean prompt.",
    ),
]
Wrong = Annotated[
    list[str] | None,
    typer.Option("--wrong", metavar="TOKEN", help="The wrong answer; by default the prediction after the corrupted."),
]
Value = Annotated[str, typer.Option("--value", metavar="NAME", help="What is patched, a value of blocks.")]
Over = Annotated[
    str, typer.Option("--over", metavar="AXES", help='The grid: layer, and position or head or both, joined by " x ".')
]
Metric = Annotated[
    str, typer.Option("--metric", metavar="NAME", help="How a patch is judged: logit_difference, probability or kl.")
]
Noise = Annotated[
    bool, typer.Option("--noise", help="Put corrupted values into the clean run, instead of the other way round.")
]
Estimate = Annotated[
    int | None,
    typer.Option(
        "--estimate",
        metavar="STEPS",
        min=1,
        help="Estimate from this many gradients instead of patching: quick, rough.",
    ),
]
Compare = Annotated[bool, typer.Option("--compare", help="With --estimate: also patch, and tell how near it comes.")]
Plain = Annotated[bool, typer.Option("--plain", help="Run whole forwards also where a quicker way gives the same.")]


@models.takes_model
def patch(
    of: models.Loaded,
    clean: Clean,
    corrupted: Corrupted,
    answer: Answer = None,
    wrong: Wrong = None,
    value: Value = "layer_output",
    over: Over = "layer x position",
    metric: Metric = "logit_difference",
    noise: Noise = False,
    estimate: Estimate = None,
    compare: Compare = False,
    plain: Plain = False,
    json: Json = False,
    html: Html = None,
    png: Png = None,
) -> None:
    """Patch one prompt's values into another's, place by place: activation patching.

    Each number is what the model says with the value of one place replaced by the other prompt's: 0 is as after the
    corrupted prompt, 1 as after the clean one.  Where both prompts hold the same, nothing is patched.
    """
    if compare and estimate is None:
        raise InputError("--compare holds an estimate against the exact sweep: give --estimate STEPS as well")
    if plain and estimate is not None and not compare:
        raise InputError("--plain says how to patch, and --estimate does not patch: leave one out, or add --compare")
    asked = (clean, corrupted, value, over, judge(metric, answer, wrong))
    loaded = of.model
    with progress("patching"):
        from nnatlas.patching import activation_patching, attribution_patching

        direction, near = "noise" if noise else "denoise", None
        if estimate is None:
            found = activation_patching(loaded, *asked, direction=direction, plain=plain)
        else:
            found = attribution_patching(loaded, *asked, direction=direction, steps=estimate)
            if compare:
                near = found.agreement(activation_patching(loaded, *asked, direction=direction, plain=plain))
    data = lambda: {"model": of.name, "clean": clean, "corrupted": corrupted, "value": value, **_data(found, near)}
    deliver(found, data, json, html, png, below=_said(found, near))


def judge(metric: str, answer: list[str] | None, wrong: list[str] | None) -> Any:
    """The metric that the options describe.

    Raises:
        InputError: there is no such metric, or it has no use for an answer that was given.
    """
    from nnatlas.patching import METRICS

    if metric not in METRICS:
        raise InputError(f"no metric {metric!r}; there are {', '.join(METRICS)}")
    given = {"answer": answer, "wrong": wrong}
    options = {name: texts[0] if len(texts) == 1 else texts for name, texts in given.items() if texts}
    try:
        return METRICS[metric](**options)
    except TypeError:
        raise InputError(f"the metric {metric} does not take {' and '.join(f'--{name}' for name in options)}") from None


def _said(found: Patching, near: Agreement | None) -> Any:
    from rich.text import Text

    lines = [Text.assemble(("largest  ", "bold"), "; ".join(f"{at} {number:.2f}" for at, number in found.largest()))]
    for words, clean, corrupted in zip(found.metric, found.clean.tolist(), found.corrupted.tolist(), strict=True):
        lines.append(Text.assemble(("metric   ", "bold"), f"{words}: clean {clean:.3f}, corrupted {corrupted:.3f}"))
    if near is not None:
        said = f"correlation {near.correlation:.3f}, largest error {near.max_error:.3g}"
        lines.append(Text.assemble(("exact    ", "bold"), said))
    return Text("\n").join(lines)


def _data(found: Patching, near: Agreement | None) -> dict[str, Any]:
    """Everything that the result holds; a place that is not there is null."""
    pairs = zip(
        found.metric, found.clean.tolist(), found.corrupted.tolist(), found.values, found.normalised, strict=True
    )
    return {
        "title": found.title,
        "way": found.way,
        "note": found.note,
        "axes": [{"name": axis.name, "labels": list(axis.labels)} for axis in found.axes],
        "pairs": [
            {
                "metric": words,
                "clean": clean,
                "corrupted": corrupted,
                "values": _nulls(values.tolist()),
                "normalised": _nulls(normalised.tolist()),
            }
            for words, clean, corrupted, values, normalised in pairs
        ],
        "agreement": None if near is None else near._asdict(),
    }


def _nulls(nested: Any) -> Any:
    if isinstance(nested, list):
        return [_nulls(one) for one in nested]
    return nested if nested == nested else None
