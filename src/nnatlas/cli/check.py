"""`nnatlas check`: run the laws on a model, or with `--all` on every model type."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Json, console, print_json, progress, to_file
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.check import Report

WIDE = 150

Subject = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL]...", help="A Hub id, a folder, smollm2, apex-1, tiny:TYPE; with --all, model types."
    ),
]
Law = Annotated[list[str] | None, typer.Option("--law", metavar="NAME", help="Run only this law; may be repeated.")]
Values = Annotated[bool, typer.Option("--values", help="Also list every value as it was measured.")]
Every = Annotated[bool, typer.Option("--all", help="Check every model type (or those given) as a tiny random model.")]
Vision = Annotated[
    bool, typer.Option("--vision", help="The laws of image towers, with made-up pictures; with --all on wrapper types.")
]
Stale = Annotated[
    bool, typer.Option("--stale", help="With --all: only types whose row has changed since they were measured.")
]
Processes = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="With --all: the processes that share the types; by default 2.")
]
Seconds = Annotated[
    float | None,
    typer.Option(metavar="S", min=1, help="With --all: give a type up after computing for so long; by default 120."),
]
Results = Annotated[
    Path | None,
    to_file("--results", help="With --all: write the measurements here; --stale writes the package's own."),
]


def check(
    model: Subject = None,
    law: Law = None,
    values: Values = False,
    json: Json = False,
    dtype: models.Dtype = None,
    device: models.Device = None,
    attn: models.Attention = None,
    revision: models.Revision = None,
    trust_remote_code: models.TrustRemoteCode = False,
    every: Every = False,
    vision: Vision = False,
    stale: Stale = False,
    processes: Processes = None,
    seconds: Seconds = None,
    results: Results = None,
) -> None:
    """Prove by running that a model obeys the laws.

    Every value is read, changed and held against its neighbours: that it is what its name says, that an edit of it
    reaches the logits, that looking changes nothing.  Ends with exit code 1 if a law is broken.

    With --vision the laws of the image tower are run instead, on made-up pictures; with --all as well, on every wrapper.

    With --all every model type is built small and random and checked under its default attention and under eager, over
    a few processes.  The measurements in --results FILE are those that the support matrix and the traits are made from.
    """
    loading: dict[str, Any] = dict(
        dtype=dtype, device=device, attn=attn, revision=revision, trust_remote_code=trust_remote_code
    )
    if every and vision:
        _refuse(False, law=law, values=values, stale=stale, **loading)
        _all_vision(model or [], processes or 2, seconds or 120.0, results, json)
    elif every:
        _refuse(False, law=law, values=values, **loading)
        _all(model or [], stale, processes or 2, seconds or 120.0, results, json)
    else:
        _refuse(True, stale=stale, results=results, processes=processes, seconds=seconds)
        _one(model or [], law, values, json, loading, vision)


def _refuse(needs_all: bool, **given: Any) -> None:
    """No option is passed over in silence."""
    for name in (name for name, value in given.items() if value):
        option = f"--{name.replace('_', '-')}"
        raise InputError(
            f"{option} goes with --all" if needs_all else f"--all takes no {option}: it runs every law on tiny models"
        )


def _one(
    names: list[str], law: list[str] | None, values: bool, json: bool, loading: dict[str, Any], vision: bool
) -> None:
    """One model, in full."""
    if len(names) != 1:
        raise InputError(f"check takes one MODEL, got {len(names)}; for many types: nnatlas check --all TYPE TYPE")
    if vision and law:
        raise InputError("--vision runs its own laws, all of them: leave --law away")
    loaded = models.load(names[0], **loading, task="image-text-to-text" if vision else None)
    with progress("running the laws"):
        report = _run(loaded, law, vision)
    if json:
        print_json({"name": names[0], **report.as_dict()})
    else:
        _print(report, values)
    if not report.passed:
        raise typer.Exit(1)


def _run(loaded: Any, law: list[str] | None, vision: bool) -> Report:
    if vision:
        from nnatlas.check.vision import check_vision

        return check_vision(loaded)
    from nnatlas.check import check as run

    return run(loaded, laws=law)


def _all_vision(types: list[str], processes: int, seconds: float, results: Path | None, json: bool) -> None:
    """Wrapper types with made-up pictures."""
    from nnatlas.cli import check_vision

    started = time.perf_counter()
    found = check_vision.check_all(types, processes, seconds, results)
    if json:
        print(found.json(), end="")
    else:
        check_vision.show(found, started)
    if found.failures:
        raise typer.Exit(1)


def _print(report: Report, values: bool) -> None:
    """The laws, the values if asked for, and what is broken."""
    out = console(piped=WIDE)
    laws, measured, *broken = report.tables()
    for shown in [laws, *([measured] if values else []), *broken]:
        out.print(shown)


def _all(types: list[str], stale: bool, processes: int, seconds: float, results: Path | None, json: bool) -> None:
    """Many types, and what was found of each."""
    from nnatlas.cli import check_all
    from nnatlas.traits.measured import KEPT, Kept, to_text

    wanted = check_all.chosen(types, stale, results)
    into = results or (KEPT if stale else None)
    started = time.perf_counter()
    found = check_all.check_all(wanted, processes, seconds, into) if wanted else Kept({}, {})
    if json:
        print(to_text(found), end="")
    elif wanted:
        check_all.show(found, time.perf_counter() - started, {} if types or stale else check_all.lacking())
    else:
        console().print("nothing is stale: every row was measured as it is")
    if check_all.broken(found):
        raise typer.Exit(1)
