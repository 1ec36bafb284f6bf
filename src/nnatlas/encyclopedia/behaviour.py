"""What a type's tiny model does when it runs, block by block: which rotate and how, and what each attention sees.

The laws prove that values are what their names say; this tells sorts of block apart that look alike from outside, such as
sliding blocks that rotate and full ones that do not.

What is kept of each sort, under these names:

    rotates, turns    whether queries and keys are turned by their position, and which dimensions with which
    sees              a window or chunks, where an attention does not see all that came before
    sinks, caps       a learned logit beside the scores; scores that are no fixed multiple of q·k
    course            the branches of the block (see `course`)
    calls, modules    which modules are called inside which, in order, and the class of every module of the block
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from nnatlas.bind.points import Point
from nnatlas.bind.tree import Host
from nnatlas.check.trial import LENGTH, Trial
from nnatlas.encyclopedia.course import NoCourse, course, loose, to_data
from nnatlas.encyclopedia.flagships import flagship
from nnatlas.encyclopedia.outline import CHUNK, HALVES, PAIRS, WINDOW
from nnatlas.encyclopedia.wiring import Seen, parts_of, wirings
from nnatlas.model import StandardizedTransformer, load

CLOSE = 1e-4
Sort = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What was seen: `by_sort` of each sort of block, `plain` of values that take no edit or have no gradient, `facts` of all."""

    by_sort: Mapping[Sort, Mapping[str, Any]] = field(default_factory=dict)
    plain: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()

    def of(self, kinds: tuple[str, ...], said: Mapping[str, str]) -> dict[str, Any]:
        """What blocks of this sort do: by all that is said of them, else by what all tiny blocks agree in.

        A checkpoint may combine what no tiny block combines (a dense sliding block); then only what all alike ones share is told.
        """
        for (own_kinds, own), facts in self.by_sort.items():
            if own_kinds == kinds and dict(own) == dict(said):
                return dict(facts)
        alike = [facts for (own_kinds, own), facts in self.by_sort.items() if _agree(dict(own), said)]
        shared = {key: value for facts in alike[:1] for key, value in facts.items()}
        return {key: value for key, value in shared.items() if all(one.get(key) == value for one in alike)}


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two sorts say nothing different in what both speak of."""
    return all(other.get(name, said) == said for name, said in one.items())


def says(block: Host) -> dict[str, str]:
    """What the config's per-block lists (`layer_types`, ...) say of a block, where they say only a few different things."""
    count = len(block.owner.blocks)
    lists = {
        name: entries
        for name, entries in vars(block.owner.config).items()
        if isinstance(entries, list | tuple) and len(entries) == count and not name.startswith("_")
    }
    few = {name: entries for name, entries in lists.items() if 1 < len(set(map(str, entries))) <= max(2, count // 2)}
    return {name: str(entries[block.index or 0]) for name, entries in sorted(few.items())}


@cache
def behaviour(model_type: str) -> Behaviour:
    """Run the tiny model of a type once; what cannot be looked at is not told."""
    model = sample(model_type)
    trial = Trial(model)
    found: dict[Sort, dict[str, Any]] = {}
    firsts: dict[Sort, Host] = {}
    for block in trial.blocks:
        sort = (block.kinds, tuple(says(block).items()))
        firsts.setdefault(sort, block)
        found.setdefault(sort, {}).update(_block(trial, block))
    seen = wirings(list(firsts.values()), lambda: trial.module(**trial.batch(trial.pair)))
    for (sort, block), one in zip(firsts.items(), seen, strict=True):
        found[sort] |= _drawn(block, one)
    return Behaviour(found, _plain(trial), tuple(_facts(model)))


def sample(model_type: str, **options: Any) -> StandardizedTransformer:
    """A small model of a type with its attention step by step: the one that comes with nnatlas, or a random one."""
    own = flagship(model_type)
    name = own.checkpoint if own.folder else f"tiny:{model_type}"
    try:
        return load(name, **{"attn_implementation": "eager", **own.sample, **options})
    except ValueError:  # no eager attention to choose
        return load(name)


def _drawn(block: Host, seen: Mapping[str, Any]) -> dict[str, Any]:
    """What the drawing needs of a block's wiring: the stream's course where it has one, and which modules are called in which."""
    nodes: list[Seen] = seen.get("wiring", [])
    try:
        steps = course(nodes, seen.get("leaves"), parts_of(block))
    except NoCourse:
        steps = loose(nodes, parts_of(block))
    made = {
        "course": to_data(steps),
        "calls": seen.get("calls", {}),
        "modules": {node.path: node.name for node in nodes},
    }
    return {name: one for name, one in made.items() if one}


def _plain(trial: Trial) -> dict[str, str]:
    """Values that by their nature take no edit, or have no gradient: a key of VALUES, and why."""
    found = {}
    for reading in trial.readings:
        value = trial.snapshot.copy(reading.point)
        if not isinstance(reading.point, Point):
            found[reading.value.key] = "derived"
        elif reading.point.read_only:
            found[reading.value.key] = f"read only: {reading.point.read_only}"
        elif isinstance(value, Tensor) and not value.is_floating_point():
            found[reading.value.key] = "whole numbers"
    return found


def _facts(model: StandardizedTransformer) -> list[str]:
    """Facts of the whole model that the kept measurements do not hold."""
    roles = [part.roles.get("act_fn") for block in model._owner.blocks for part in block.parts.values()]
    modules = [at[0] for at in roles if isinstance(at, tuple)]
    return ["learns its activation"] if any(any(True for _ in module.parameters()) for module in modules) else []


# -- one block ---------------------------------------------------------------------------------------------------------


def _block(trial: Trial, block: Host) -> dict[str, Any]:
    """What one block does, from what the trial read: heads `[batch heads seq width]`, patterns `[batch heads query key]`."""
    read = {
        reading.value.name: value
        for reading in trial.readings
        if reading.host.kind == "self_attn" and reading.host.index == block.index
        if isinstance(value := trial.snapshot.copy(reading.point), Tensor)
    }
    found: dict[str, Any] = {}
    before, after = read.get("unrotated_queries"), read.get("attention_queries")
    if before is not None and after is not None and before.shape == after.shape:
        found["rotates"] = bool((before != after).any())
        if found["rotates"] and (turns := _turns(before, after)):
            found["turns"] = turns
    pattern = read.get("attention_probabilities")
    if pattern is not None and pattern.ndim == 4 and "indexer_choice" not in read and (sees := _sees(pattern)):
        found["sees"] = sees
    attention = block.parts.get("self_attn")
    if attention is not None and any("sink" in name for name, _ in attention.module.named_parameters()):
        found["sinks"] = True
    elif _caps(read):
        found["caps"] = True
    return found


def _caps(read: Mapping[str, Tensor]) -> bool:
    """Whether scores stand to queries times keys in no fixed ratio, though nothing else than a mask may come between.

    Looked at in the first query, which sees its own key alone: a bias by distance is 0 there.
    """
    queries, keys, scores = (read.get(f"attention_{name}") for name in ("queries", "keys", "scores"))
    if queries is None or keys is None or scores is None or scores.ndim != 4 or queries.shape[-1] != keys.shape[-1]:
        return False
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
    raw, given = (queries[:, :, 0] * keys[:, :, 0]).sum(-1).flatten(), scores[:, :, 0, 0].flatten()
    factor = (raw @ given) / (raw @ raw)
    return bool((factor * raw - given).norm() > 1e-3 * given.norm())


def _turns(before: Tensor, after: Tensor) -> str:
    """Whether neighbouring dimensions keep their common length, or those of the two halves do; nothing if neither."""
    turned = (before != after).flatten(0, -2).any(0)
    wide = int(turned.nonzero().max()) + 1
    wide += wide % 2
    before, after = before[..., :wide], after[..., :wide]
    for name, shape in ((PAIRS, (wide // 2, 2)), (HALVES, (2, wide // 2))):
        axis = -1 if name == PAIRS else -2
        was, now = (one.unflatten(-1, shape).square().sum(axis) for one in (before, after))
        if torch.allclose(was, now, rtol=CLOSE, atol=CLOSE):
            return name
    return ""


def _sees(pattern: Tensor) -> str:
    """Whether later queries see fewer keys than there are: a window that moves, or chunks that begin anew."""
    if pattern.shape[-1] != pattern.shape[-2] or pattern.shape[-1] < LENGTH:
        return ""
    seen = (pattern[0] > 0).any(0).sum(-1)
    if bool((seen.diff() < 0).any()):
        return CHUNK
    return WINDOW if int(seen[-1]) < len(seen) and int(seen[0]) < int(seen[-1]) else ""
