"""The laws of towers on tiny models of many wrapper types, over a few processes, and the file that keeps what was found."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nnatlas import families
from nnatlas.check.findings import BROKEN, EXCEPTED, HOLDS
from nnatlas.check.report import Report
from nnatlas.check.shards import in_shards
from nnatlas.families import wrappers
from nnatlas.families._wrapper import Wrapper

KEPT: Final = Path(__file__).parents[2] / "data" / "vision.json"
Progress = Callable[[str, dict[str, Any]], None]


def types() -> list[str]:
    """The wrapper types that have a row and run."""
    return sorted(name for name, row in wrappers.rows().items() if isinstance(row, Wrapper) and not row.unrun)


def reasons() -> dict[str, str]:
    """The wrapper types without a tower that could be served or run, each with its reason."""
    found = {name: row.unrun if isinstance(row, Wrapper) else row.reason for name, row in wrappers.rows().items()}
    return {name: reason for name, reason in sorted(found.items()) if reason}


@dataclass(frozen=True)
class VisionSweep:
    """What was found, by type, and the types that have no tower, by reason."""

    types: Mapping[str, Mapping[str, Any]]
    without: Mapping[str, str]

    @property
    def passing(self) -> list[str]:
        return [name for name, one in self.types.items() if one.get("passed")]

    @property
    def failures(self) -> dict[str, list[str]]:
        """What is broken, by type."""
        return {name: list(one["failures"]) for name, one in self.types.items() if not one.get("passed")}

    def json(self) -> str:
        """The facts without timings, so that two sweeps that find the same are the same text."""
        import torch
        import transformers

        versions = {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
        found = {"versions": versions, "types": dict(sorted(self.types.items())), "without": dict(self.without)}
        return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def sweep_vision(
    names: Iterable[str] | None = None,
    *,
    processes: int = 2,
    seconds_per_type: float = 120.0,
    progress: Progress | None = None,
) -> VisionSweep:
    """Check a tiny random wrapper of every type that has a row (or of those named) with made-up pictures.

    Call it from a program's own file (under `if __name__ == "__main__":`): the processes import that file again.

    >>> sweep_vision(["aya_vision", "cohere2_vision"]).passing
    ['aya_vision', 'cohere2_vision']
    """
    wanted = [name for name in types() if not families.lacking(name)] if names is None else list(names)
    found: dict[str, dict[str, Any]] = {}
    for name, result in in_shards(check_type, wanted, processes, seconds_per_type):
        found[name] = {"passed": False, "failures": [result["error"]]} if "error" in result else result
        if progress is not None:
            progress(name, found[name])
    too_new = {name: why for name in types() if (why := families.lacking(name))}
    return VisionSweep({name: found[name] for name in sorted(found)}, reasons() | too_new)


def check_type(name: str) -> dict[str, Any]:
    """The facts on one type; `error` where there could be none."""
    import torch
    import transformers

    from nnatlas.check.vision import check_vision

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return facts(check_vision(f"tiny:{name}"))
        except Exception as fault:  # noqa: BLE001  a type that cannot be built or bound is a result of the sweep
            return {"error": f"{type(fault).__name__}: {fault}"}


def facts(report: Report) -> dict[str, Any]:
    """What does not change from run to run."""
    laws = {law: _verdict(counts) for law, counts in report.laws.items()}
    failures = dict.fromkeys(f"{one.law}: {one.value} at {one.where}: {one.detail}" for one in report.failures)
    excepted = (one for one in report.findings if one.status == EXCEPTED)
    return {
        "tower": report.subject["tower"],
        "reads": list(report.subject["reads"]),
        "passed": report.passed,
        "laws": laws,
        "served": {key: one.layout for key, one in report.values.items() if not one.absent},
        "absent": {key: one.absent for key, one in report.values.items() if one.absent},
        "exceptions": list(dict.fromkeys(f"{one.law}: {one.value}: {one.detail}" for one in excepted)),
        "failures": list(failures),
    }


def _verdict(counts: Mapping[str, Any]) -> str:
    if counts[BROKEN]:
        return BROKEN
    return HOLDS if counts[HOLDS] else EXCEPTED


def read(path: str | Path = KEPT) -> VisionSweep:
    """A sweep as it was written down; by default the one that comes with the package."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return VisionSweep(found["types"], found["without"])


def write(path: Path, new: VisionSweep) -> None:
    """Write a sweep over what a file has of the same types."""
    old = read(path).types if path.exists() else {}
    path.write_text(VisionSweep({**old, **new.types}, new.without).json(), encoding="utf-8")
