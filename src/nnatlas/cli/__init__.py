"""The command line, `nnatlas COMMAND`: one small file per command, each a plain function with typed arguments.

What a command computes goes to stdout, and with `--json` nothing else does; progress and errors go to stderr.  What a
user can get wrong ends in one line, `error: ...`, and exit code 2; a model that fails a law in exit code 1.  Torch is
imported by the commands that run a model, when they do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Annotated

import typer

from nnatlas.cli.failures import Commands

COMMANDS = (
    "lens", "patterns", "attribute", "patch", "steer", "show", "support", "check", "pull", "find", "families", "page", "draft",
    "version",
)  # fmt: skip
GROUPS = ("apex", "encyclopedia")
"""Modules here that bring an `app` of their own, mounted if they are there."""

EPILOG = "NNATLAS_HOME is where pulled models are kept. NNATLAS_TRACEBACK=1 shows Python's traceback with an error."


def _version(asked: bool) -> None:
    if asked:
        from nnatlas.cli.version import version

        version()
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the versions that matter and stop."),
    ] = False,
) -> None:
    """One name for one thing on every transformer: look inside language models."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def build() -> typer.Typer:
    """The application with every command."""
    made = typer.Typer(
        name="nnatlas",
        cls=Commands,
        rich_markup_mode=None,  # plain help: boxes cost as long to import as everything else together
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback(invoke_without_command=True, epilog=EPILOG)(_root)
    for name in COMMANDS:
        made.command(name)(getattr(importlib.import_module(f"{__name__}.{name}"), name))
    for name in GROUPS:
        if importlib.util.find_spec(f"{__name__}.{name}") is not None:
            made.add_typer(importlib.import_module(f"{__name__}.{name}").app, name=name)
    return made


def main() -> None:
    """The entry point of the `nnatlas` command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot write a letter still shows the rest
    build()()
