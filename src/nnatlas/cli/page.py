"""`nnatlas page`: one page of the encyclopedia for a model of one's own, with what was measured of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnatlas.cli import models
from nnatlas.cli.encyclopedia import needs_extra
from nnatlas.cli.output import progress, to_file, write_page
from nnatlas.errors import InputError

Out = Annotated[Path | None, to_file("--out", help="The HTML file to write; by default named after the model.")]
Text = Annotated[str | None, typer.Option(help="The text to run it on.")]


def page(
    model: models.Model,
    out: Out = None,
    text: Text = None,
    dtype: models.Dtype = None,
    device: models.Device = None,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """Write one page on a model or checkpoint, with measured numbers.

    The model is run on a text: the gains of its norms, the length of the stream, the attention that the first position
    draws, and how much each block adds.  The page is one file that needs nothing else.
    """
    needs_extra()
    if text is not None and not text.strip():
        raise InputError("--text is empty: leave it out, or give the text to run the model on")
    loaded = models.load(model, dtype=dtype, device=device, revision=revision, trust_remote_code=trust_remote_code)
    with progress(f"measuring {model}"):
        from nnatlas.encyclopedia.checkpoint import TEXT, measure
        from nnatlas.encyclopedia.site import alone

        html = alone(measure(loaded, text or TEXT, name=model))
    path = out or Path(f"{model.replace('/', '--').replace(':', '-')}.html")
    write_page(path, html)
    typer.echo(f"{path}: {len(html.encode()) / 1000:.0f} kB")
