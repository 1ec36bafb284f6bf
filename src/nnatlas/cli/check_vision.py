"""`nnatlas check --vision`: the laws of image towers, on one model or on every wrapper type."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnatlas import families
from nnatlas.cli.output import console
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.check.vision.sweeping import VisionSweep

WIDE = 180


def check_all(names: Sequence[str], processes: int, seconds: float, results: Path | None) -> VisionSweep:
    """Run the wrapper types; write the measurements over those of the same types in `results`."""
    from nnatlas.check.vision import sweeping

    known = sweeping.types()
    for name in names:
        if why := families.lacking(name):
            raise InputError(why)
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            said = sweeping.reasons().get(name, "no wrapper row covers it")
            raise InputError(f"{name!r} has no tower to check: {said}{'; near: ' + ', '.join(near) if near else ''}")
    found = sweeping.sweep_vision(names or None, processes=processes, seconds_per_type=seconds, progress=_progress)
    if results is not None:
        try:
            sweeping.write(results, found)
        except OSError as fault:
            raise InputError(f"cannot write {str(results)!r}: {fault.strerror}") from None
    return found


def _progress(name: str, result: dict[str, Any]) -> None:
    wrong = next(iter(result["failures"]), "every law holds")
    print(f"{name}: {wrong}", file=sys.stderr, flush=True)


def show(found: VisionSweep, started: float) -> None:
    """Each type; what is broken; the types without a tower and why."""
    from nnatlas.show import table

    out = console(piped=WIDE)
    rows = [
        (name, one.get("tower", ""), ", ".join(one.get("reads", ())), str(len(one.get("served", ()))),
         f"{sum(said != 'broken' for said in one.get('laws', {}).values())} of {len(one.get('laws', ()))}",
         "yes" if one["passed"] else "NO")
        for name, one in found.types.items()
    ]  # fmt: skip
    heads = ("type", "tower", "the projector reads", "values served", "laws passed", "passes")
    out.print(table(f"wrapper types with made-up pictures, in {time.perf_counter() - started:.0f} s", heads, rows))
    broken = [(name, said) for name, sentences in found.failures.items() for said in sentences[:5]]
    if broken:
        out.print(table("what is broken (at most five findings a type)", ("type", "what was found"), broken))
    out.print(table("without a tower that is served", ("type", "why"), list(found.without.items())))
    out.print(f"{len(found.passing)} of {len(found.types)} types pass every law")
