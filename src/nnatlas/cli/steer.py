"""`nnatlas steer`: a prompt continued with and without a steering vector, side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Json, Prompt, console, print_json, progress, to_file, write_page
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.edits import Edit, SteeringVector
    from nnatlas.model import StandardizedTransformer

PLAIN = "as it is"

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
Method = Annotated[
    str | None, typer.Option(help='How the vector is made: "mean", which is the default, or "pca" (of pairs).')
]
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
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Where sampling starts, the same for each."),
]
Vector = Annotated[
    Path | None,
    typer.Option("--vector", metavar="FILE", help="Use the vector in this file instead of contrast prompts."),
]
Save = Annotated[Path | None, to_file("--save", help="Also write the vector, as safetensors.")]
Html = Annotated[Path | None, to_file("--html", help="Write the texts as a web page instead.")]


@models.takes_model
def steer(
    of: models.Loaded,
    prompt: Prompt,
    positive: Positive = None,
    negative: Negative = None,
    layer: Layer = None,
    scale: Scale = None,
    method: Method = None,
    position: Position = None,
    on: On = "both",
    tokens: Tokens = 40,
    temperature: Temperature = None,
    seed: Seed = None,
    vector: Vector = None,
    save: Save = None,
    json: Json = False,
    html: Html = None,
) -> None:
    """Continue a prompt with and without a steering vector, side by side.

    The vector is the difference between what the residual stream holds at the end of the positive and of the negative
    prompts; it is added, times the scale, to what leaves the chosen layers.
    """
    _check_numbers(scale or [], temperature, seed)
    _check_source(vector, positive, negative, method)
    loaded = of.model
    with progress("steering"):
        from nnatlas.edits import continuations

        found = _vector(loaded, vector, positive, negative, "mean" if method is None else method, layer)
        edits = _edits(loaded, found, layer, scale or [1.0], position, on)
        _check_reach(loaded, prompt, position, on, tokens)
        sampling = {"do_sample": False} if temperature is None else {"do_sample": True, "temperature": temperature}
        shown = continuations(loaded, prompt, edits, seed or 0, max_new_tokens=tokens, **sampling)
    if save is not None:
        found.save(save)
    if html is not None:
        write_page(html, shown.page(f"{of.name}: steering"))
    if json:
        print_json({"model": of.name, "vector": _about(found), **shown.data()})
    elif html is not None:
        print(html)
    else:
        console().print(shown)


def _check_numbers(scales: list[float], temperature: float | None, seed: int | None) -> None:
    """Refuse numbers that would steer nowhere, or sample nothing."""
    wrong = next((scale for scale in scales if not math.isfinite(scale)), None)
    if wrong is not None:
        raise InputError(f"--scale {wrong:g}: give a finite number, such as 4 or -4")
    if temperature is not None and not (temperature > 0 and math.isfinite(temperature)):
        raise InputError(f"--temperature {temperature:g}: it is above 0; leave it out to take the likeliest token")
    if seed is not None and temperature is None:
        raise InputError("--seed is of sampling: give a --temperature as well")


def _check_source(
    file: Path | None, positive: list[str] | None, negative: list[str] | None, method: str | None
) -> None:
    """A vector comes from its file, or from a contrast."""
    if file is not None and (positive or negative):
        raise InputError("--vector takes the place of --positive and --negative: give one or the other")
    if file is not None and method is not None:
        raise InputError("--method says how a vector is made, and --vector brings one that is: leave one out")
    if file is None and not (positive and negative):
        raise InputError('steering needs a contrast: --positive "I love it" --negative "I hate it" (or --vector FILE)')


def _check_reach(model: StandardizedTransformer, prompt: str, position: int | None, on: str, tokens: int) -> None:
    """Refuse a run that is longer than the model reads, and a position that none of its tokens has."""
    length = model.collect(prompt, "input_ids")["input_ids"].shape[1]
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if most is not None and length + tokens > most:
        raise InputError(f"--tokens {tokens}: the prompt has {length}, and this model reads {most} at most")
    first, end = length if on == "new" else 0, length if on == "prompt" else length + tokens - 1  # the last is not read
    if end <= first:
        raise InputError(
            f"--on new with --tokens {tokens}: the last token is not read again, so nothing would be steered"
        )
    if position is None or position == -1 or first <= position < end or (on != "new" and -length <= position < 0):
        return
    raise InputError(
        f"--position {position}: the prompt has {length} tokens; with --tokens {tokens} and --on {on} those steered on are "
        f"{first} to {end - 1}"
    )


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
        return SteeringVector.load(file)
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
