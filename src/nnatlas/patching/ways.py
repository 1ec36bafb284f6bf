"""Three ways through a sweep, the quickest first; each but the last is proven on the spot and left where it fails.

A patch at block l and position p changes nothing below l and, where attention is causal, nothing before p.

- `CAUSAL`: one pass for some neighbouring positions, on the tokens from the first of them on, over the base run's keys and
  values of those before; it goes up the stack once, and at each block the rows patched there join the batch.  MLPs run on
  changed tokens only, where they can be given those (`nnatlas.patching.packing`).
- `ABOVE`: the same on whole prompts, for blocks that remember earlier positions otherwise than by keys and values.
- `PLAIN`: whole prompts through all blocks, a row for each patch.

In each pass the first row is unpatched and must give the base run's logits, and cells that the base run has patched already
must give what they gave there.  So it is the model's structure that decides, never its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from torch import Tensor

from nnatlas.errors import LawBroken
from nnatlas.patching.cells import Patch
from nnatlas.patching.forwards import Forward
from nnatlas.patching.metrics import Judge
from nnatlas.patching.situation import Situation, shortly
from nnatlas.patching.stack import farthest, tolerance

WEIGHTS = 32
"""For how many tokens a block's matrix products cost as much as the reading of its weights and the calls around them."""
TOKENS, LOGITS = 4096, 2**26
"""What one forward may hold: tokens over all its rows, and logits."""


class Way(NamedTuple):
    """How a sweep is run, in words for the reader."""

    words: str
    growing: bool = False
    cached: bool = False
    packed: bool = False


CAUSAL = Way("only blocks above and positions from each patch on, many patches to a forward", True, True)
ABOVE = Way("only blocks above each patch, many patches to a forward", True)
PLAIN = Way("whole forwards, many patches to a batch")
WAYS = (CAUSAL._replace(packed=True), CAUSAL, ABOVE, PLAIN)


class Swept(NamedTuple):
    """What a sweep found: a number for each patch, the way that was gone, and why not a quicker one."""

    numbers: dict[Patch, float]
    way: Way
    reasons: tuple[str, ...]


class Deviates(Exception):
    """A quicker way does not give what a plain forward gives."""


def run_sweep(situation: Situation, judge: Judge, ways: Sequence[Way] = WAYS) -> Swept:
    """Patch every cell that can change anything, by the first of these ways that holds; the last one has to.

    Raises:
        LawBroken: whole forwards of one prompt give different logits, so that no number can be trusted.
    """
    patches = situation.patches()
    *quick, last = ways
    reasons: dict[str, str] = {}
    for way in quick:
        why = _forbidden(situation, way)
        if not why:
            try:
                reasons.pop(way.words, None)
                return Swept(_numbers(situation, way, patches, judge), way, tuple(reasons.values()))
            except Exception as wrong:  # noqa: BLE001  whatever it is, a plainer way decides
                why = str(wrong) if isinstance(wrong, Deviates) else shortly(wrong)
        reasons[way.words] = why
    try:
        return Swept(_numbers(situation, last, patches, judge), last, tuple(reasons.values()))
    except Deviates as wrong:
        why = "a row depends on the others of its batch, or on chance (is the model in training mode?)"
        raise LawBroken(f"{wrong}: {why}") from None


def _forbidden(situation: Situation, way: Way) -> str:
    if way.packed and situation.stack.unpackable:
        return situation.stack.unpackable
    return (situation.no_cache or situation.acausal) if way.cached else ""


def _numbers(situation: Situation, way: Way, patches: Sequence[Patch], judge: Judge) -> dict[Patch, float]:
    found: dict[Patch, float] = {}
    for start, together in _passes(situation, way, patches):
        cache = situation.cache if way.cached else None
        values = situation.source.values
        forward = Forward(
            situation.stack, situation.base.ids, together, values, start, cache, growing=way.growing, packed=way.packed
        )
        logits = forward.run()
        _check(situation, forward, logits)
        ours = judge(logits[len(forward.pairs) :], [patch.pair for patch in forward.patches])
        found |= zip(forward.patches, ours.tolist(), strict=True)
    return found


def _passes(situation: Situation, way: Way, patches: Sequence[Patch]) -> Iterator[tuple[int, list[Patch]]]:
    """Where each forward begins, and what it patches."""

    def starting(patch: Patch) -> int:
        position = patch.cell.position
        return (situation.same[patch.pair] if position is None else position) if way.cached else 0

    start = 0
    together: list[Patch] = []
    for first, group in groupby(sorted(patches, key=starting), starting):
        here = list(group)
        fits = len(together) + len(here) <= _room(situation, start)
        alone = len({patch.pair for patch in here}) * (situation.length - first)
        if together and not (fits and _joins(len(here), first - start, alone)):
            yield from _split(situation, start, together)
            together = []
        start, together = (start if together else first), [*together, *here]
    yield from _split(situation, start, together)


def _joins(rows: int, early: int, tokens: int) -> bool:
    """Whether rows had better be part of a forward that begins `early` positions before they need, in tokens a block.

    What they compute in vain (attention only, a quarter of a block or less, and in half of the blocks, since they join on
    the way up) stands against a forward of their own: its unpatched rows' tokens, and the reading of all weights.
    """
    return rows / 8 * early <= tokens + WEIGHTS


def _split(situation: Situation, start: int, patches: list[Patch]) -> Iterator[tuple[int, list[Patch]]]:
    """Cut what is too much for one forward into layers that follow each other, so that upper ones join late."""
    room, ordered = _room(situation, start), sorted(patches, key=lambda patch: patch.cell.layer)
    return ((start, ordered[at : at + room]) for at in range(0, len(ordered), room))


def _room(situation: Situation, start: int) -> int:
    """Rows of one forward."""
    return max(1, min(TOKENS // (situation.length - start), LOGITS // situation.base.logits.shape[1]))


def _check(situation: Situation, forward: Forward, logits: Tensor) -> None:
    """Hold a pass against the base run: its unpatched rows, and the cells that were patched there."""
    allowed, plain = tolerance(situation.base.logits), len(forward.pairs)
    expected = {row: (pair, "the unpatched row", situation.base.logits[pair]) for row, pair in enumerate(forward.pairs)}
    for row, patch in enumerate(forward.patches, plain):
        if patch in situation.probed:
            expected[row] = (patch.pair, f"a patch at {patch.cell}", situation.probed[patch])
    for row, (pair, what, wanted) in expected.items():
        gap = farthest(logits[row], wanted)
        if not gap <= allowed:
            of = f" of pair {pair}" if situation.pairs > 1 else ""
            raise Deviates(f"{what}{of} gives other logits than a whole forward (by {gap:.2g})")
