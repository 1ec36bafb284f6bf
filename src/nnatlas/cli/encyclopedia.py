"""`nnatlas encyclopedia`: write the site, look at it, and renew what its pages are made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnatlas.cli.output import progress
from nnatlas.errors import InputError

app = typer.Typer(help="Build the encyclopedia: a page for every family, from the facts.", no_args_is_help=True)

Families = Annotated[
    list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Only the pages of these model types.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")]
Run = Annotated[
    bool,
    typer.Option(
        help="Also run the checkpoints that are at hand (the bundled one, and SmolLM2 if pulled) for their pages."
    ),
]


@app.command()
def build(families: Families = None, out: Out = Path("encyclopedia"), run: Run = True) -> None:
    """Write the site into a folder.

    With FAMILY, only those families' pages are written anew.  Nothing is written, and the exit code is 1, where a row and
    what was measured of it part ways.
    """
    needs_extra()
    from nnatlas.encyclopedia.site import build as build_site

    models = _models() if run and not families else {}
    with progress("writing pages"):
        built = build_site(out, families or (), models)
    name, size = built.largest
    typer.echo(
        f"{built.pages} pages in {built.out}, {built.families} of families; the largest, {name}, has {size / 1000:.0f} kB"
    )


def needs_extra() -> None:
    """`InputError` where the libraries that pages are made with are not installed."""
    from importlib.util import find_spec

    if missing := [name for name in ("jinja2", "markdown_it", "pygments") if find_spec(name) is None]:
        raise InputError(f"{missing[0]} is not installed: pip install 'nnatlas[encyclopedia]'")


def _models() -> dict[str, object]:
    """Pages of the checkpoints that need no network."""
    from nnatlas.encyclopedia.checkpoint import at_hand, measure

    pages: dict[str, object] = {}
    for name in at_hand():
        with progress(f"running {name}"):
            pages[name] = measure(name)
    return pages


@app.command()
def serve(
    out: Out = Path("encyclopedia"),
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 8000,
) -> None:
    """Serve a built site on this machine, until Ctrl-C."""
    from nnatlas.encyclopedia.serving import serve as serve_folder

    if not (out / "index.html").is_file():
        raise InputError(f"there is no site in {str(out)!r}; write one with `nnatlas encyclopedia build --out {out}`")
    serve_folder(out, port, typer.echo)


@app.command()
def outline(
    families: Families = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Those whose row has changed since, or that have none.")
    ] = False,
    processes: Annotated[int, typer.Option(help="How many to make at a time.")] = 2,
) -> None:
    """Renew what pages keep of built models.

    Each type's flagship is built without weights and its tiny model run once, for the printout, the config and the sorts
    of block that pages show.  They are kept in the package's data folder.
    """
    from nnatlas.encyclopedia import measurements, renewing

    if stale and not families:
        renewing.renew_own_types()
    wanted = families or (renewing.stale() if stale else list(measurements.types()))
    failed = []
    for name, why in renewing.renew(wanted, processes):
        typer.echo(f"{name}: {why or 'done'}", err=bool(why))
        failed += [name] if why else []
    if failed:
        raise InputError(f"{len(failed)} of {len(wanted)} outlines could not be made: {', '.join(failed)}")
