"""`nnatlas check`: run the laws on a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Json, console, print_json, progress

if TYPE_CHECKING:
    from nnatlas.check import Report

WIDE = 150

Law = Annotated[list[str] | None, typer.Option("--law", metavar="NAME", help="Run only this law; may be repeated.")]
Values = Annotated[bool, typer.Option("--values", help="Also list every value as it was measured.")]


def check(
    model: models.Model,
    law: Law = None,
    values: Values = False,
    json: Json = False,
    dtype: models.Dtype = None,
    device: models.Device = None,
    attn: models.Attention = None,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
) -> None:
    """Prove by running that a model obeys the laws.

    Every value is read, changed and held against its neighbours: that it is what its name says, that an edit of it
    reaches the logits, that looking changes nothing.  Ends with exit code 1 if a law is broken.
    """
    loaded = models.load(
        model, dtype=dtype, device=device, attn=attn, revision=revision, trust_remote_code=trust_remote_code
    )
    with progress("running the laws"):
        from nnatlas.check import check as run

        report = run(loaded, laws=law)
    if json:
        print_json({"name": model, **report.as_dict()})
    else:
        _print(report, values)
    if not report.passed:
        raise typer.Exit(1)


def _print(report: Report, values: bool) -> None:
    """The laws, the values if asked for, and what is broken."""
    out = console(piped=WIDE)
    laws, measured, *broken = report.tables()
    for shown in [laws, *([measured] if values else []), *broken]:
        out.print(shown)
