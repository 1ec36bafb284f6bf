"""sweep: the laws on tiny models of many types, over a few processes."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nnatlas import families
from nnatlas.check.shards import in_shards
from nnatlas.check.swept import Sweep
from nnatlas.traits.fingerprint import of_type

Progress = Callable[[str, dict[str, Any]], None]


def sweep(
    types: Iterable[str] | None = None,
    *,
    processes: int = 2,
    seconds_per_type: float = 60.0,
    results: str | Path | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Check a tiny random model of every type, under its default attention and under eager.

    `types` are model types, by default all with a row that transformers has.  They are shared out over `processes`, each with one
    torch thread; a type that computes for longer than `seconds_per_type` is given up and reported as failed, however long it had to
    wait for a busy machine.  `results` is a file to write the measured facts to, `progress` is called with each type and its
    result as they finish.  The sweep's `computed` says how many seconds each type took.

    Call it from a program's own file (under `if __name__ == "__main__":`): the processes import that file again.

    >>> found = sweep(["llama", "mixtral"], processes=2)
    >>> print(found)
    >>> found.passed, found.serving("self_attn.attention_scores")
    (True, ['llama', 'mixtral'])
    """
    ours = [name for name, row in families.rows().items() if not (row.defined_in or families.lacking(name))]
    wanted = sorted(ours) if types is None else list(dict.fromkeys(types))
    started = time.perf_counter()
    found: dict[str, dict[str, Any]] = {}
    computed: dict[str, float] = {}
    for model_type, result in in_shards(check_type, wanted, processes, seconds_per_type, computed.__setitem__):
        found[model_type] = result
        if progress is not None:
            progress(model_type, result)
    swept = Sweep({name: found[name] for name in sorted(found)}, time.perf_counter() - started, computed)
    if results is not None:
        Path(results).write_text(swept.json() + "\n", encoding="utf-8")
    return swept


def check_type(model_type: str) -> dict[str, Any]:
    """The reports on one type by attention implementation, as plain data; `error` where there could be none."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _reports(model_type)
        except Exception as fault:  # noqa: BLE001  a type that cannot be built or bound is a result of the sweep
            return {"error": f"{type(fault).__name__}: {fault}"}


def _reports(model_type: str) -> dict[str, Any]:
    """Under the default attention, then under eager where that is another one and the type has it.

    The last, the step-by-step one if there is any, also says what the model is made of.
    """
    from nnatlas.check.checking import check
    from nnatlas.check.structure import structure
    from nnatlas.model import load

    model = load(f"tiny:{model_type}")
    default = check(model)
    reports = {default.subject["attention"] or "own": default}
    if "eager" not in reports:
        with contextlib.suppress(ValueError):
            model = load(f"tiny:{model_type}", attn_implementation="eager")
            reports["eager"] = check(model)
    found = {name: report.facts() for name, report in reports.items()}
    made_of = {"structure": structure(model), "row": of_type(model_type, model._owner.family.name)}
    found[next(iter(found))] |= made_of
    return found


def read_sweep(path: str | Path) -> Sweep:
    """A sweep as it was written by `sweep(results=...)`."""
    return Sweep(json.loads(Path(path).read_text(encoding="utf-8"))["types"])
