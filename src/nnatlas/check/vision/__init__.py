"""The laws of image towers, runnable on any model that takes images.

report = check_vision("tiny:llava")      # or a loaded model; pictures are made up
print(report)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from nnatlas.check.findings import BROKEN, HOLDS, Finding
from nnatlas.check.report import Measured, Report
from nnatlas.check.vision import entry_laws, row_laws, tower_laws
from nnatlas.check.vision.sighted import Sighted
from nnatlas.errors import AtlasError
from nnatlas.model import StandardizedTransformer, load
from nnatlas.values import VISION

Law = Callable[[Sighted], Iterable[Finding]]
SENTENCES: Final = {
    "shape": "every value has its layout, with the tower's own sizes",
    "residual": "what enters a tower block and what its parts add make what leaves it",
    "scatter": "layers[0].layer_input at the image's tokens is image_features, exactly",
    "zeroed": "zeroing image_features changes the logits and no text position of layers[0].layer_input",
    "reads": "a write to what the projector is said to read reaches it, and one behind it does not",
    "pure": "reading changes nothing, and nothing stays on the model (clean)",
    "held": "a tensor handed out is the same after the run as when it was read",
    "causal": "changing a value changes the logits, in place and by assignment alike; a clone written back does not",
    "many": "a picture's features beside others are those it has alone",
    "together": "what the attention of a packed tower holds of two pictures is what it holds of each alone, end to end",
    "rows": "prompts with one picture, two and none in one batch equal each prompt alone",
    "order": "what the tower computes is past once the text model has begun",
    "absent": "a run on text alone says that it has no values of the tower, and why",
}
_PARTS: Final[dict[str, Law]] = {
    name: getattr(module, name)
    for name in SENTENCES
    for module in (tower_laws, entry_laws, row_laws)
    if hasattr(module, name)
}


def check_vision(model: Any, *, tolerance: float | None = None, **options: Any) -> Report:
    """Run the laws of towers on a model that takes images; see `SENTENCES` for what they say.

    `model` is what `load` gives, with its processor, or anything `load` takes (`options` go to it).
    Errors: `InputError` for a model without a tower or without a processor.

    >>> check_vision("tiny:aya_vision").passed
    True
    """
    if not isinstance(model, StandardizedTransformer):
        model = load(model, **{"task": "image-text-to-text", **options})
    started = time.perf_counter()
    trial = Sighted(model, tolerance)
    findings = tuple(finding for name, law in _PARTS.items() for finding in _run(name, law, trial))
    title = f"{type(model._module).__name__}, images ({trial.tower.family.name})"
    subject = {
        "model": type(model._module).__name__,
        "model_type": model.config.model_type,
        "tower": trial.tower.family.name,
        "reads": trial.tower.reads,
    }
    return Report(title, subject, findings, _values(trial, findings), time.perf_counter() - started)


def _run(name: str, law: Law, trial: Sighted) -> Iterator[Finding]:
    """A law's findings; one that cannot be run to its end is broken."""
    try:
        yield from law(trial)
    except Exception as fault:  # noqa: BLE001  a wrong row may fail anywhere; the other laws still have something to say
        yield trial.finding(name, "model", "model", f"{type(fault).__name__}: {fault}")


def _values(trial: Sighted, findings: Iterable[Finding]) -> dict[str, Measured]:
    """Every value of the tower: its layout, whether it was read and written, or why it is not there."""
    found: dict[str, Measured] = {}
    own = list(findings)
    for seen in trial.served:
        read, write = (
            _said([one for one in own if one.law == law and one.value == seen.key]) for law in ("shape", "causal")
        )
        found.setdefault(seen.key, Measured(str(seen.point.layout), "everywhere", read=read, write=write))
    for key, value in VISION.items():
        host = trial.tower.root if value.host == "vision" else trial.tower.projector
        if key not in found:
            found[key] = Measured("", "nowhere", _reason(host, value.name, trial))
    return found


def _reason(host: Any, name: str, trial: Sighted) -> str:
    if host is None:
        return trial.tower.no_projector
    try:
        return host.absence(name) or ""
    except AtlasError as fault:
        return str(fault)


def _said(findings: list[Finding]) -> str:
    statuses = [finding.status for finding in findings]
    if BROKEN in statuses:
        return BROKEN
    return HOLDS if HOLDS in statuses else next((finding.detail for finding in findings), "")


__all__ = ["SENTENCES", "check_vision"]
