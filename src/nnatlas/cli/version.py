"""`nnatlas version`: the versions that a bug report needs."""

from __future__ import annotations

import platform

import nnatlas
from nnatlas.cli.output import Json, print_json

OTHERS = ("torch", "transformers", "tokenizers", "safetensors", "greenlet")


def version(json: Json = False) -> None:
    """Print the versions that a bug report needs."""
    found = {
        "nnatlas": nnatlas.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in OTHERS},
    }
    if json:
        print_json(found)
    else:
        print("\n".join(f"{name:<13}{number}" for name, number in found.items()))


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
