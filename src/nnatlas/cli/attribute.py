"""`nnatlas attribute`: what wrote a logit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Html, Json, Png, Prompt, deliver, progress

if TYPE_CHECKING:
    from nnatlas.readouts import LogitAttribution

Target = Annotated[
    str | None, typer.Option("--target", metavar="TOKEN", help="The token whose logit it is; by default the likeliest.")
]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="TOKEN", help="Share out how much higher the target is than this token."),
]
By = Annotated[
    str, typer.Option("--by", metavar="PART", help="Share out to each layer, head, neuron, expert or expert_neuron.")
]
Position = Annotated[
    int,
    typer.Option("--position", metavar="N", help="Where the prediction is read, 0 for the first token, -1 the last."),
]
TopK = Annotated[int, typer.Option("--top", metavar="K", min=0, help="Also list the K largest shares.")]


@models.takes_model
def attribute(
    of: models.Loaded,
    prompt: Prompt,
    target: Target = None,
    against: Against = None,
    by: By = "layer",
    position: Position = -1,
    top: TopK = 5,
    json: Json = False,
    html: Html = None,
    png: Png = None,
) -> None:
    """Share a token's logit out to what wrote it: direct logit attribution.

    The last stream is a sum of what each layer wrote; read out with the final norm's scale held, each part has a share
    of the logit, and the shares sum to it.  Effects through later layers are not in a share.
    """
    loaded = of.model
    with progress("sharing the logit out"):
        from nnatlas.readouts import logit_attribution

        part: Any = by
        found = logit_attribution(loaded, prompt, target, against, by=part, position=position)
    data = lambda: {"model": of.name, "prompt": prompt, **_data(found, top)}
    deliver(found, data, json, html, png, below=_largest(found, top) if top else None)


def _largest(found: LogitAttribution, k: int) -> Any:
    from rich.text import Text

    said = (
        f"layer {layer} {found.by.replace('_', ' ') if found.by != 'layer' else ''} {name} {share:+.3f}"
        for layer, name, share in found.top(k)
    )
    return Text.assemble(("largest  ", "bold"), "; ".join(" ".join(one.split()) for one in said))


def _data(found: LogitAttribution, k: int) -> dict[str, Any]:
    """Everything but the shares of neurons, of which there are too many: those that are largest."""
    layers = [
        {
            "layer": layer,
            "shares": {name: share for name, share in zip(found.columns, shares, strict=True) if share == share},
        }
        for layer, shares in enumerate(found.values[0].tolist())
    ]
    return {
        "of": found.targets[0],
        "by": found.by,
        "total": float(found.total[0]),
        "sum": float(found.sum[0]),
        "rest": {name: float(amount[0]) for name, amount in found.rest.items()},
        "largest": [dict(zip(("layer", "part", "share"), one, strict=True)) for one in found.top(k)],
        "layers": [] if found.by.endswith("neuron") else layers,
        "missing": {str(layer): why for layer, why in found.missing.items()},
    }
