"""`nnatlas steer`: a prompt continued with and without a steering vector, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Json, console, print_json, progress, write_page
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.edits import Edit, SteeringVector
    from nnatlas.model import StandardizedTransformer

PLAIN = "as it is"

Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help='The text to continue; "-" takes it from stdin.')]
Positive = Annotated[
    list[str] | None,
    typer.Option("--positive", metavar="TEXT", help="A prompt of the kind to steer toward; may be repeated."),
]
Negative = Annotated[
    list[str] | None,
    typer.Option("--negative", metavar="TEXT", help="A prompt of the kind to steer away from; may be repeated."),
]
Layer = Annotated[
    list[int] | None,
    typer.Option(
        "--layer", metavar="N", help="Steer at this layer, -1 the last; may be repeated. By default the middle."
    ),
]
Scale = Annotated[
    list[float] | None,
    typer.Option("--scale", metavar="X", help="Times the vector; negative steers away. May be repeated. By default 1."),
]
Method = Annotated[str, typer.Option(help='How the vector is made: "mean" or "pca" (of pairs).')]
Position = Annotated[
    int | None,
    typer.Option(
        "--position", metavar="N", help="Steer at this token only, -1 the last of the prompt and every new one."
    ),
]
On = Annotated[str, typer.Option(metavar="WHICH", help='Steer on the "prompt", on "new" tokens, or on "both".')]
Tokens = Annotated[int, typer.Option("--tokens", metavar="N", min=1, help="How many tokens to write.")]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="Sample at this temperature; by default the likeliest."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Where sampling starts, the same for each.")]
Vector = Annotated[
    Path | None,
    typer.Option("--vector", metavar="FILE", help="Use the vector in this file instead of contrast prompts."),
]
Save = Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Also write the vector, as safetensors.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the texts as a web page instead.")]


def steer(
    model: models.Model,
    prompt: Prompt,
    positive: Positive = None,
    negative: Negative = None,
    layer: Layer = None,
    scale: Scale = None,
    method: Method = "mean",
    position: Position = None,
    on: On = "both",
    tokens: Tokens = 40,
    temperature: Temperature = None,
    seed: Seed = 0,
    vector: Vector = None,
    save: Save = None,
    json: Json = False,
    html: Html = None,
    dtype: models.Dtype = None,
    device: models.Device = None,
    attn: models.Attention = None,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """Continue a prompt with and without a steering vector, side by side.

    The vector is the difference between what the residual stream holds at the end of the positive and of the negative
    prompts; it is added, times the scale, to what leaves the chosen layers.
    """
    if temperature is not None and not temperature > 0:
        raise InputError(f"--temperature {temperature:g}: it is above 0; leave it out for the likeliest tokens")
    loaded = models.load(
        model, dtype=dtype, device=device, attn=attn, revision=revision, trust_remote_code=trust_remote_code
    )
    with progress("steering"):
        from nnatlas.edits import continuations

        found = _vector(loaded, vector, positive, negative, method, layer)
        text = sys.stdin.read() if prompt == "-" else prompt
        edits = _edits(loaded, found, layer, scale or [1.0], position, on)
        sampling = {"do_sample": False} if temperature is None else {"do_sample": True, "temperature": temperature}
        shown = continuations(loaded, text, edits, seed, max_new_tokens=tokens, **sampling)
    if save is not None:
        found.save(save)
    if json:
        print_json({"model": model, "vector": _about(found), **shown.data()})
    elif html is not None:
        write_page(html, shown.page(f"{model}: steering"))
        print(html)
    else:
        console().print(shown)


def _vector(
    model: StandardizedTransformer,
    file: Path | None,
    positive: list[str] | None,
    negative: list[str] | None,
    method: str,
    layers: list[int] | None,
) -> SteeringVector:
    """The vector from its file, or from the contrast prompts."""
    from nnatlas.edits import SteeringVector, steering_vector

    if file is not None:
        if positive or negative:
            raise InputError("--vector takes the place of --positive and --negative: give one or the other")
        return SteeringVector.load(file)
    if not positive or not negative:
        raise InputError('steering needs a contrast: --positive "I love it" --negative "I hate it" (or --vector FILE)')
    return steering_vector(model, positive, negative, method, layers or [model.num_layers // 2])


def _edits(
    model: StandardizedTransformer,
    vector: SteeringVector,
    layers: list[int] | None,
    scales: list[float],
    position: int | None,
    on: str,
) -> dict[str, Edit | None]:
    """The plain model, and a steered one for each scale."""
    from nnatlas.edits import steer as steered

    made = {f"scale {scale:g}": steered(model, vector, layers, scale, position, on) for scale in scales}
    return {PLAIN: None, **made}


def _about(vector: SteeringVector) -> dict[str, Any]:
    norms = {str(layer): float(one.norm()) for layer, one in vector.directions.items()}
    return {"method": vector.method, "norms": norms}
