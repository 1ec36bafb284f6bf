"""Making the kept outlines anew, a few processes at a time: what `nnatlas encyclopedia outline` does.

Each type is made in a process that may be ended, since a type that hangs must not stop the others; a type that fails keeps the
outline that it has, and the failure is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nnatlas import families
from nnatlas.check.shards import in_shards
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.outline import FOLDER, kept
from nnatlas.traits.fingerprint import of_type

SECONDS = 120.0
"""What one type may take: the largest flagships have thousands of modules."""


def stale() -> list[str]:
    """Types whose outline is missing, or was made with another row."""
    rows = families.rows()
    found = {name: kept(name) for name in measurements.types() if name in rows}
    return [name for name, one in found.items() if one is None or one.row != of_type(name, one.family)]


def renew(types: Iterable[str], processes: int = 2, folder: Path = FOLDER) -> Iterator[tuple[str, str]]:
    """Make and keep the outlines of types; gives each as it is done, with what went wrong or nothing.

    Call it from a program's own file: its processes import that file again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in in_shards(_made, list(types), processes, SECONDS):
        if "text" in made:
            (folder / f"{name}.json").write_text(made["text"], encoding="utf-8")
        yield name, made.get("error", "")


def _made(model_type: str) -> dict[str, Any]:
    import warnings

    import torch
    import transformers

    from nnatlas.encyclopedia.outline import to_text
    from nnatlas.encyclopedia.outlining import outline

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {"text": to_text(outline(model_type))}
        except Exception as fault:  # noqa: BLE001  a type that cannot be built is told, the others go on
            return {"error": f"{type(fault).__name__}: {fault}"}


def renew_own_types(path: Path = measurements.OWN) -> None:
    """Measure the types that nnatlas defines itself, and keep that."""
    from nnatlas.encyclopedia.own_types import measure

    path.write_text(measure(), encoding="utf-8")
    measurements.own.cache_clear()
