"""What goes wrong in a command, as one line on stderr and an exit code: 2 for what the user can put right."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from nnatlas.errors import AtlasError, LawBroken

# typer brings its own click in some releases; this much of it both have
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
TRACEBACK = "NNATLAS_TRACEBACK"


class Commands(TyperGroup):
    """The group of all commands: it turns whatever a command raises into its one line."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command line; ends the process unless `standalone_mode=False` is given."""
        within = {**more, "standalone_mode": False}
        if not more.get("standalone_mode", True):
            return super().main(*args, **within)
        try:
            code = super().main(*args, **within)
        except UsageError as wrong:
            code = complain(f"{_message(wrong)}{_help_for(wrong)}")
        except AtlasError as wrong:
            code = complain(str(wrong), 1 if isinstance(wrong, LawBroken) else 2)
        except typer.Abort:
            code = complain("interrupted", 130)
        sys.exit(code if isinstance(code, int) else 0)


def complain(message: str, code: int = 2) -> int:
    """Print the one line and return the exit code; with NNATLAS_TRACEBACK set, Python's traceback comes first."""
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exc()
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code


def one_line(message: str) -> str:
    """A message without line breaks and runs of blanks, and without control characters that a name might carry."""
    joined = " ".join(message.split())
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in joined)


def _message(wrong: Any) -> str:
    return str(wrong.format_message()).rstrip(".")


def _help_for(wrong: Any) -> str:
    context = getattr(wrong, "ctx", None)
    return f". For help: {context.command_path} --help" if context is not None else ""
