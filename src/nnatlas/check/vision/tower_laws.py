"""The laws of a tower's own values: shape, residual, pure, held and causal, at every block of the tower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from nnatlas import layouts, places
from nnatlas.bind.cells import point_at, scale_of
from nnatlas.bind.points import Point
from nnatlas.bind.tree import Host
from nnatlas.check.findings import Finding, apart
from nnatlas.check.imprint import Imprint
from nnatlas.check.vision.sighted import INTERIOR, Seen, Sighted, counted
from nnatlas.model.stream import identity_of
from nnatlas.model.vision import seeing
from nnatlas.places import Absent, Term


def shape(trial: Sighted) -> Iterator[Finding]:
    """Every value has its layout, with the tower's own sizes."""
    for seen in trial.served:
        value = trial.values[seen.label]
        wrong = value if isinstance(value, str) else None
        if isinstance(value, Tensor):
            wrong = layouts.fault(seen.point.layout, value.shape, seen.point.sizes)
        yield trial.finding("shape", seen.key, seen.host.name, wrong, str(seen.point.layout))


def residual(trial: Sighted) -> Iterator[Finding]:
    """What enters a tower block and what its parts add make what leaves it."""
    for block in trial.tower.blocks:
        said = identity_of(block)
        key = "vision.layers[i].layer_output"
        if isinstance(said, Absent):
            yield trial.excepted("residual", key, block.name, said.reason)
            continue
        terms = places.identity(said)
        parts = [_term(trial, block, term) for term in terms]
        if any(not isinstance(part, Tensor) for part in parts):
            yield trial.finding("residual", key, block.name, f"{said}: a part could not be read")
        else:
            yield trial.close("residual", key, block.name, said, parts[-1], reduce(add, parts[:-1]), trial.tolerance)


def _term(trial: Sighted, block: Host, term: Term) -> Any:
    """A summand of a block's identity as it was read, times its factors."""
    if term.place is not None:
        point = point_at(block, block.values["layer_output"], term.place, f", summand {term.place.text}")
        with torch.no_grad(), seeing_run(trial) as run:
            value = run.read(point).clone()
    else:
        hosts = (host for host in (block, *block.parts.values()) if term.value in host.values)
        host = next((host for host in hosts if host.absence(term.value) is None), block)
        value = trial.values.get(Seen(host, term.value, None).label)  # type: ignore[arg-type]
    for factor in term.factors if isinstance(value, Tensor) else ():
        scale = scale_of(block, factor)()
        value = value / scale if factor.divides else value * scale
    return value


def seeing_run(trial: Sighted) -> Any:
    """A run over the trial's prompt with its picture."""
    from nnatlas.engine import Run

    return seeing(Run(trial.model._owner, lambda: trial.module(**trial.batch)), trial.batch)


def pure(trial: Sighted) -> Iterator[Finding]:
    """Reading everything changes no logit, bit for bit but for what is computed step by step; nothing stays on the model."""
    assert trial.values  # read by now: transformers puts hooks of its own on a tower in its first forward
    before = Imprint(trial.model._owner)
    plain = [seen.label for seen in trial.served if seen.name not in INTERIOR and _read(trial, seen)]
    inside = [seen.label for seen in trial.served if seen.name in INTERIOR and _read(trial, seen)]
    for labels, allowed in ((plain, 0.0), (inside, trial.allowed)):
        if labels:
            with torch.no_grad():
                got = counted(trial.model.collect(trial.batch, [*labels, "logits"])["logits"])
            said = "reading leaves the logits as they are" + ("" if allowed else ", bit for bit")
            yield trial.close("pure", "logits", "model", said, got, trial.bare, allowed)
    again = trial.logits(trial.batch)
    yield trial.close("clean", "logits", "model", "afterwards the logits are as before", again, trial.bare, 0.0)
    for what, wrong in before.differences(Imprint(trial.model._owner)).items():
        yield trial.finding("clean", what, "model", wrong or None, f"{what} are as before")


def held(trial: Sighted) -> Iterator[Finding]:
    """A tensor handed out is the same after the forward as when it was read."""
    labels = [seen.label for seen in trial.served if _read(trial, seen)]
    with torch.no_grad():
        found = trial.model.collect(trial.batch, [*labels, "logits"])
    for seen in (one for one in trial.served if one.label in labels):
        said = "after the forward it is as it was read"
        yield trial.close(
            "held", seen.key, seen.host.name, said, found[seen.label], trial.values[seen.label], trial.allowed
        )


def causal(trial: Sighted) -> Iterator[Finding]:
    """An edit reaches the logits, in place and by assignment alike; writing back a clone changes nothing.

    What lies behind the place that the projector reads reaches nothing, and that is checked too.
    """
    for seen in trial.served:
        if not isinstance(seen.point, Point) or seen.point.read_only or not _read(trial, seen):
            continue
        moved = {name: _moved(trial, seen, edit) for name, edit in _EDITS.items()}
        yield trial.finding("causal", seen.key, seen.host.name, _fault(trial, seen, moved), "edits reach the logits")


def _fault(trial: Sighted, seen: Seen, moved: dict[str, Tensor | str]) -> str | None:
    for name, logits in moved.items():
        if isinstance(logits, str):
            return f"an edit {name} failed: {logits}"
    far = {name: apart(logits, trial.bare) for name, logits in moved.items() if isinstance(logits, Tensor)}
    if far["of a clone"] > trial.allowed:
        return f"writing back a clone moves the logits by {far['of a clone']:.1e}"
    least = max(3 * far["of a clone"], trial.tolerance)  # what rounding alone may do
    reaches = max(far["in place"], far["by assignment"]) > least
    if behind(trial, seen):
        reaches = far["by assignment"] > least if _is_what_is_read(trial, seen) else reaches
        return "it lies behind what the projector reads, but an edit reaches the logits" if reaches else None
    if min(far["in place"], far["by assignment"]) <= least:
        return f"an edit does not reach the logits: they move by {far['in place']:.1e} and {far['by assignment']:.1e}"
    if _is_what_is_read(
        trial, seen
    ):  # in place it changes what the projector reads too, by assignment only what comes next
        return None
    both = apart(moved["in place"], moved["by assignment"])  # type: ignore[arg-type]
    return None if both <= trial.allowed else f"in place and by assignment differ by {both:.1e}"


def behind(trial: Sighted, seen: Seen) -> bool:
    """Whether a value of the tower comes after everything that the projector reads."""
    reads = trial.tower.reads
    if "tower_output" in reads or not reads:
        return False
    if seen.name == "tower_output" and seen.host is trial.tower.root:
        last = f"layers[{len(trial.tower.blocks) - 1}].layer_output"
        return not (last in reads and isinstance(trial.tower.root.roles["norm"], Absent))
    last_read = max(int(name.partition("[")[2].partition("]")[0]) for name in reads)
    block = seen.host.block or seen.host
    return (
        block.kind == "block"
        and block.owner.in_front
        and (block.index or 0) > last_read - _only_entered(reads, last_read)
    )


def _only_entered(reads: tuple[str, ...], last: int) -> bool:
    """Whether of the last block that is read only what enters it is."""
    return f"layers[{last}].layer_output" not in reads


def _is_what_is_read(trial: Sighted, seen: Seen) -> bool:
    """Whether a block is entered by the very tensor that the projector reads, as another block's output."""
    above = f"layers[{(seen.host.index or 0) - 1}].layer_output"
    return seen.name == "layer_input" and seen.host.owner.in_front and above in trial.tower.reads


def _moved(trial: Sighted, seen: Seen, edit: Callable[[Any, Point, Tensor], Any]) -> Tensor | str:
    """The logits after an edit of the whole value."""
    point = seen.point
    assert isinstance(point, Point)
    try:
        with torch.no_grad(), seeing_run(trial) as run:
            edit(run, point, run.read(point))
        return counted(run.output.logits)
    except Exception as fault:  # noqa: BLE001  any fault belongs to this value
        return f"{type(fault).__name__}: {fault}"


def _noise(value: Tensor, name: str) -> Tensor:
    """Noise of the value's own size; a mask's least numbers stay."""
    counted = value.abs() < torch.finfo(value.dtype).max * 1e-4
    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(crc32(name.encode()))).to(value)
    size = value[counted].float().square().mean().sqrt().clamp(min=1e-3).to(value.dtype)
    return torch.where(counted, value + noise * size, value)


_EDITS: dict[str, Callable[[Any, Point, Tensor], Any]] = {
    "in place": lambda run, point, value: value.copy_(_noise(value, point.name)),
    "by assignment": lambda run, point, value: run.write(point, _noise(value, point.name)),
    "of a clone": lambda run, point, value: run.write(point, value.clone()),
}


def _read(trial: Sighted, seen: Seen) -> bool:
    value = trial.values[seen.label]
    return isinstance(value, Tensor) and value.is_floating_point()
