"""check: run the laws on a model and report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import transformers

from nnatlas.check import laws as _laws
from nnatlas.check.findings import BROKEN, EXCEPTED, HOLDS, Finding
from nnatlas.check.registry import LAWS
from nnatlas.check.report import MEASURED, Measured, Report
from nnatlas.check.trial import Trial
from nnatlas.errors import AtlasError, InputError
from nnatlas.model import StandardizedTransformer, load

assert _laws  # imported for the laws it registers


def check(
    model: Any,
    *,
    laws: Iterable[str] | None = None,
    blocks: Sequence[int] | None = None,
    inputs: Any = None,
    tolerance: float | None = None,
    raise_on_failure: bool = False,
    **options: Any,
) -> Report:
    """Run the laws on a model: that every value is what its name says, can be edited, and that looking changes nothing.

    `model` is what `load` gives or anything `load` takes (`options` go to it).  `laws` limits the check to some of shape,
    residual, chain, head, pure, causal, held, gradient, batch, whole, clean.  `blocks` are the blocks looked at in full, by
    default the first and last of every kind; `inputs` a prompt, by default random ids; `tolerance` the relative deviation
    allowed, by default 2e-5 in float32, 3e-2 in bfloat16.  A law that the family's row declares not to hold is listed as
    excepted, with the reason.

    Errors: `LawBroken` if `raise_on_failure` and a law is broken; `InputError` for an unknown law or block.

    >>> report = nnatlas.check("tiny:llama")
    >>> print(report)
    >>> report.values["self_attn.attention_scores"].gradient
    'holds'
    """
    wanted = _known(laws)
    if not isinstance(model, StandardizedTransformer):
        model = load(model, **options)
    elif options:
        raise InputError(f"a loaded model takes no loading options, got {', '.join(options)}")
    started = time.perf_counter()
    trial = Trial(model, inputs, blocks, tolerance)
    findings = tuple(_declared(trial, finding) for name in wanted for finding in _run(name, trial))
    report = Report(_title(trial), _subject(trial), findings, _values(trial, findings), time.perf_counter() - started)
    if raise_on_failure:
        report.raise_for_failures()
    return report


def _known(laws: Iterable[str] | None) -> list[str]:
    """The laws asked for, in their own order."""
    asked = list(LAWS) if laws is None else [laws] if isinstance(laws, str) else list(laws)
    unknown = [name for name in asked if name not in LAWS]
    if unknown:
        raise InputError(f"there is no law called {unknown[0]!r}; there are {', '.join(LAWS)}")
    return [name for name in LAWS if name in asked]


def _run(name: str, trial: Trial) -> Iterable[Finding]:
    """A law's findings; one that cannot be run to its end is broken."""
    for part in LAWS[name]:
        try:
            yield from part(trial)
        except Exception as fault:  # noqa: BLE001  a wrong row may fail anywhere; the other laws still have something to say
            yield Finding(name, part.__name__.replace("_", " "), "model", BROKEN, f"{type(fault).__name__}: {fault}")


def _declared(trial: Trial, finding: Finding) -> Finding:
    """A broken finding that the row declares is an exception."""
    breaks = trial.owner.family.breaks
    value = finding.value
    spelled = (
        value,
        value.rpartition(".")[2],
        value.partition(" ")[0],
    )  # mlp.mlp_input, mlp_input; cache of "cache logits"
    names = (*(f"{finding.law} {one}" for one in spelled), finding.law)
    reason = next((breaks[name] for name in names if name in breaks), None)
    return finding.excused(reason) if finding.broken and reason else finding


def _values(trial: Trial, findings: Sequence[Finding]) -> dict[str, Measured]:
    """Every value of the vocabulary as it was predicted and found; none where the row's cells do not even fit."""
    try:
        rows = trial.model.support().rows
    except AtlasError:
        return {}
    found = {}
    for key, row in rows.items():
        own = [finding for finding in findings if finding.value == key]
        said = {what: _said([one for one in own if one.law == law]) for what, law in MEASURED.items()}
        laws = {law: _said([one for one in own if one.law == law]) for law in dict.fromkeys(one.law for one in own)}
        served = "nowhere" if row.nowhere else "everywhere" if row.everywhere else "some blocks"
        found[key] = Measured(str(row.layout), served, (row.reason or "") if row.nowhere else "", laws=laws, **said)
    return found


def _said(findings: Sequence[Finding]) -> str:
    """One word for several blocks: broken if any is, an exception's reason if there is nothing better."""
    statuses = [finding.status for finding in findings]
    if BROKEN in statuses:
        return BROKEN
    if HOLDS in statuses:
        return HOLDS
    return next((finding.detail for finding in findings if finding.status == EXCEPTED), statuses[0] if statuses else "")


def _title(trial: Trial) -> str:
    return f"{type(trial.module).__name__} ({trial.owner.family.name})"


def _subject(trial: Trial) -> dict[str, Any]:
    """What was checked and with what: the head of a report, and of a kept measurement."""
    weight = trial.module.get_input_embeddings().weight
    return {
        "model": type(trial.module).__name__,
        "model_type": trial.module.config.model_type,
        "family": trial.owner.family.name,
        "attention": getattr(trial.owner.config, "_attn_implementation", None),
        "dtype": str(weight.dtype).removeprefix("torch."),
        "blocks": [block.index for block in trial.blocks],
        "tolerance": trial.tolerance,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
