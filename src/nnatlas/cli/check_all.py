"""`nnatlas check --all`: the laws on every model type, with progress on stderr and the measurements kept."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnatlas import families
from nnatlas.cli.output import console
from nnatlas.errors import InputError
from nnatlas.traits.measured import HOLDS, KEPT, Kept, from_reports, measurable, read, to_text

if TYPE_CHECKING:
    from rich.table import Table

    from nnatlas.check import Sweep
    from nnatlas.traits import Measurement

STREAM = ("block.layer_input", "block.layer_output", "logits")
INTERIOR = tuple(f"self_attn.attention_{name}" for name in ("queries", "scores", "probabilities", "head_outputs"))
WIDE = 180
SLOWEST = 12


def chosen(types: Sequence[str], stale: bool, results: Path | None) -> list[str]:
    """The types to run: those named, else all that transformers has; of these only the stale ones if so asked."""
    known = measurable()
    for name in types:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            raise InputError(f"no family covers model_type {name!r}{'; near: ' + ', '.join(near) if near else ''}")
        if why := families.lacking(name):
            raise InputError(why)
    old = set(read(results or KEPT).stale()) if stale else set(known)
    return [name for name in types or sorted(known) if name in old and not families.lacking(name)]


def check_all(types: Sequence[str], processes: int, seconds: float, results: Path | None) -> Kept:
    """Run the types; print what was found; write the measurements over those of the same types in `results`."""
    from nnatlas.check import sweep

    with _shown(len(types)) as progress:
        found = sweep(types, processes=processes, seconds_per_type=seconds, progress=progress)
    print(costs(found.computed), file=sys.stderr)
    new = kept_of(found)
    if results is not None:
        _write(results, read(results).with_new(new))
    return new


def costs(computed: Mapping[str, float]) -> str:
    """How long the types computed in all, and the slowest of them.

    >>> costs({"llama": 1.5, "bloom": 2.25})
    '3.8 s of computing; the slowest types: bloom 2.2, llama 1.5'
    """
    slowest = sorted(computed, key=lambda name: -computed[name])[:SLOWEST]
    said = ", ".join(f"{name} {computed[name]:.1f}" for name in slowest)
    return f"{sum(computed.values()):.1f} s of computing; the slowest types: {said}"


def kept_of(found: Sweep) -> Kept:
    """The part of a sweep that is worth keeping."""
    import torch
    import transformers

    return from_reports(
        found.types, {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
    )


def _write(path: Path, kept: Kept) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_text(kept), encoding="utf-8")
    except OSError as fault:
        raise InputError(f"cannot write {str(path)!r}: {fault.strerror}") from None


# -- progress ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _shown(total: int) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A bar with the last type on a terminal, a line a type elsewhere; what fails stays to be read either way."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not sys.stderr.isatty()) as bar:
        task, done = bar.add_task("starting", total=total), 0

        def progress(name: str, result: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            wrong = _wrong(result)
            bar.update(task, advance=1, description=name)
            if wrong or bar.disable:
                err.print(f"[{done}/{total}] {name}: {wrong or 'every law holds'}")

        yield progress


def _wrong(result: dict[str, Any]) -> str:
    """The first thing that is wrong with a type, or nothing."""
    if "error" in result:
        return str(result["error"])
    return next((said for way in result.values() for said in way["failures"]), "")


# -- what was found ----------------------------------------------------------------------------------------------------


def show(kept: Kept, seconds: float, left_out: Mapping[str, str]) -> None:
    """Each type; what is absent and why; what is broken; the types that could not be run; and the sum of it all."""
    out, wrong = console(piped=WIDE), broken(kept)
    for made in (_types(kept), _absences(kept), *([_failures(kept)] if wrong else []), *_left_out(left_out)):
        out.print(made)
    out.print(totals(kept, seconds))


def lacking() -> dict[str, str]:
    """The types that the installed transformers is too old for, and what to install."""
    return {name: why for name in measurable() if (why := families.lacking(name))}


def _left_out(lacking: Mapping[str, str]) -> list[Table]:
    from nnatlas.show import table

    return [table("not run: the installed transformers is older", ("type", "why"), lacking.items())] if lacking else []


def broken(kept: Kept) -> list[Measurement]:
    """The types that break a law or could not be built, and those with a value served that nobody could read."""
    return [one for one in kept.types.values() if not one.passed or one.unproven]


def _types(kept: Kept) -> Table:
    from nnatlas.show import table

    rows = [
        (name, one.family, ", ".join(one.attention), str(len(one.served)), str(len(one.absent)),
         f"{sum(said != 'broken' for said in one.laws.values())} of {len(one.laws)}", "yes" if one.passed else "NO")
        for name, one in kept.types.items()
    ]  # fmt: skip
    return table("model types", ("type", "row", "attention", "values served", "absent", "laws passed", "passes"), rows)


def _absences(kept: Kept) -> Table:
    from nnatlas.show import table

    found: dict[tuple[str, str], list[str]] = {}
    for name, one in kept.types.items():
        for key, why in one.absent.items():
            found.setdefault((key, why), []).append(name)
    rows = [(key, why, str(len(names)), ", ".join(names[:3])) for (key, why), names in sorted(found.items())]
    return table("what is absent everywhere in a type, and why", ("value", "reason", "types", "such as"), rows)


def _failures(kept: Kept) -> Table:
    from nnatlas.show import table

    rows = [
        (one.model_type, said)
        for one in broken(kept)
        for said in (
            (one.error,)
            if one.error
            else (*one.failures[:5], *(f"{key} is served but was not read" for key in one.unproven))
        )
    ]
    return table("what is broken (at most five findings a type)", ("type", "what was found"), rows)


def totals(kept: Kept, seconds: float) -> Table:
    """Types, values served and absent, and how many types pass each law."""
    from nnatlas.show import table

    return table(f"in all, in {seconds:.0f} s", ("", ""), totals_of(kept))


def totals_of(kept: Kept) -> list[tuple[str, str]]:
    """The sums, each with what it counts."""
    types = list(kept.types.values())
    laws = list(dict.fromkeys(law for one in types for law in one.laws))
    passing = {law: sum(one.laws.get(law) in (HOLDS, "excepted") for one in types) for law in laws}
    return [
        ("types", str(len(types))),
        ("types that pass every law", str(sum(one.passed for one in types))),
        ("types that serve layer_input, layer_output and logits", str(sum(one.serves(*STREAM) for one in types))),
        ("types that serve the attention interior", str(sum(one.serves(*INTERIOR) for one in types))),
        ("... or say in a line why there is none", str(sum(one.serves_or_says(*INTERIOR) for one in types))),
        ("values served", str(sum(len(one.served) for one in types))),
        ("values served but not read", str(sum(len(one.unproven) for one in types))),
        ("values absent, each with its reason", str(sum(len(one.absent) for one in types))),
        ("types passing each law", ", ".join(f"{law} {count}" for law, count in passing.items())),
    ]
