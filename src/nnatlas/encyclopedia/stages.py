"""The stages of a block: from one sum on the residual stream to the next, as a run of the tiny model showed them.

A stage is one branch, or several that read the same stream (a parallel block, attention beside a mixer).  A branch leaves the
stream, passes norms and cores, and is added back, sometimes only after later sums.  A core is rows of chips: values, modules and
small operations in the order in which the forward meets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nnatlas import places
from nnatlas.encyclopedia.chips import NORM, OP, Chip, Chips
from nnatlas.encyclopedia.cores import Core, Row, core, other_core
from nnatlas.encyclopedia.course import ANEW, BESIDE, CHANNELS, MIXED, PLUS, Add, Step, from_data
from nnatlas.encyclopedia.outline import SOFTMAX, Variant
from nnatlas.families._row import ROLES
from nnatlas.places import Factor, Side, Term

ADDED: Final = {
    "self_attn.attention_output": "self_attn",
    "linear_attn.attention_output": "linear_attn",
    "mlp.mlp_output": "mlp",
}
"""What each part of a block adds to the stream."""
NORMS: Final = ("attention_norm", "mlp_norm", "attention_post_norm", "mlp_post_norm")


Part = Chip | Row | Core
"""What stands on a branch: a chip, several side by side, or a core."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What leaves the stream and is added back: norms, modules and cores on the way, and the name of what is added.

    `lands` counts the stages that pass before it is added: 0 for its own.
    """

    parts: tuple[Part, ...]
    adds: Chip | None
    lands: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """Branches that read the same stream, and what happens on the stream when they come back.

    `shared` is a norm that all branches read; `weighed` scales the stream before the sum; `join` is a module that takes stream and
    branch in place of a plain sum; after `anew` the branch itself is the stream.  `summed` names the stream right after the sum,
    `then` is what stands on it, `named` its name after that.
    """

    branches: tuple[Branch, ...]
    shared: tuple[Chip, ...] = ()
    weighed: tuple[Chip, ...] = ()
    join: Chip | None = None
    anew: bool = False
    summed: Chip | None = None
    then: tuple[Chip, ...] = ()
    named: Chip | None = None

    @property
    def sums(self) -> bool:
        """Whether the branches are simply added."""
        return self.join is None and not self.anew


def coursed(chips: Chips, variant: Variant) -> Iterator[Stage]:
    """The stages of a block whose course is known."""
    steps = from_data(variant.facts["course"])
    yield from _Stages(chips, variant, steps)


class _Stages:
    """Turns the steps of a course into stages: paths become chips and cores, and factors get the names that the row gives them.

    `roles` maps a module's path to its role, `terms` a summand's key to the identity's term; `named` are the contributions that
    have been drawn, since each value is drawn once however many branches pass its part.
    """

    def __init__(self, chips: Chips, variant: Variant, steps: Sequence[Step]) -> None:
        self.chips, self.variant, self.steps = chips, variant, steps
        self.roles = {path: role for role, path in reversed(list(variant.bound.roles.items()))}
        terms = places.identity(variant.identity) if variant.identity else ()
        self.terms = {_key(term, variant): term for term in terms[:-1]}
        self.whole = whole(variant)
        self.named: set[str] = set()

    def __iter__(self) -> Iterator[Stage]:
        leaving: dict[int, list[Branch]] = {}
        for at, step in enumerate(self.steps):
            for add in step.adds:
                if (
                    self.roles.get(add.chain[-1]) != "shared_experts"
                ):  # the MLP's core shows them beside the routed ones
                    leaving.setdefault(at - add.waits, []).append(self._branch(add))
        weights = self._weights()
        middle = self._middle(leaving)
        for at, step in enumerate(self.steps):
            yield self._stage(step, leaving.get(at, []), next(weights) if step.stream else (), at == middle)

    def _stage(self, step: Step, branches: list[Branch], weighed: tuple[Chip, ...], middle: bool) -> Stage:
        first = branches[0].parts[0] if len(branches) > 1 and branches[0].parts else None
        shared = first if isinstance(first, Chip) and all(one.parts[0] == first for one in branches) else None
        if shared:
            branches = [Branch(one.parts[1:], one.adds, one.lands) for one in branches]
        name = self.chips.value("block.layer_mid") if middle else None
        before = middle and bool(step.stands) and self._source("block.layer_mid") == (step.stands[0], "in")
        then = (*self._scales(step.whole, self.whole), *(self._chip(path) for path in step.stands))
        join = self._chip(step.join) if step.join not in ("", ANEW) else None
        if step.join == MIXED:
            join = self.chips.mixed()
        return Stage(
            tuple(branches), (shared,) if shared else (), weighed, join, step.join == ANEW,
            name if before else None, then, None if before else name,
        )  # fmt: skip

    def _middle(self, leaving: dict[int, list[Branch]]) -> int | None:
        """The stage after which the stream is `layer_mid`: the one that adds what attention or mixer give."""
        mixed = [at for at, branches in leaving.items() if any(_mixes(one) for one in branches)]
        found = min(mixed, default=None)
        last = len(self.steps) - 1
        return found if found is not None and found < last and self.chips.has("block.layer_mid") else None

    # -- branches --------------------------------------------------------------------------------------------------

    def _branch(self, add: Add) -> Branch:
        parts = tuple(self._parts(add.chain))
        key = self._added(add.chain[-1], parts)
        scales = self._scales(add.scale, self._factors(key))
        if not key or key in self.named:
            return Branch((*parts, *scales), None, add.waits)
        self.named.add(key)
        return Branch((*parts, *scales), self.chips.value(key), add.waits)

    def _parts(self, chain: Sequence[str]) -> Iterator[Part]:
        """A chain's modules; those that make up an MLP which is no module of its own become its core."""
        drawn: set[str] = set()
        for path in chain:
            if BESIDE in path:
                yield tuple(self._chip(one) for one in path.split(BESIDE))
                continue
            part = self._part(path)
            if part in drawn:
                continue
            if part:
                drawn.add(part)
                yield core(self.chips, self.variant, part)
            elif len(inside := _modules_in(self.variant, path)) > 1:
                yield other_core(self.chips, path, inside)
            else:
                yield self._chip(path)

    def _part(self, path: str) -> str:
        """The part that a module is, or belongs to where the part is no module but the block itself (OPT's MLP)."""
        if self.roles.get(path) in ADDED.values():
            return self.roles[path]
        classes = self.variant.bound.classes
        loose = {part for part in ADDED.values() if classes.get(part) == classes.get("block")}
        inside = {ROLES.get(role) for at, role in self.roles.items() if at == path or at.startswith(f"{path}.")} & loose
        return str(inside.pop()) if inside else ""

    def _chip(self, path: str) -> Chip:
        """A module by its path: the norms of the block by their roles, so that their cards tell of their values."""
        if path == PLUS:
            return Chip("+ stream", OP, "added to the stream", "for the next module alone: the stream stays as it is")
        role = self.roles.get(path, "")
        if role in NORMS:
            return self.chips.norm(role)
        return self.chips.native_module(path, self._tone(path))

    def _tone(self, path: str) -> str:
        made_by = self.variant.facts.get("modules", {}).get(path, "")
        return NORM if "norm" in f"{path}{made_by}".lower() else ""

    def _added(self, path: str, parts: Sequence[Part]) -> str:
        """The value that a branch adds: the one read at its last module, or of the part that it passes."""
        keys = [key for key in ADDED if self.chips.has(key)]
        for key in keys:
            if self._source(key) == (path, "out"):
                return key
        passed = [part.name for part in reversed(parts) if isinstance(part, Core)]  # the last one is what adds
        return next((key for name in passed for key in keys if ADDED[key] == name), "")

    def _source(self, key: str) -> tuple[str, str]:
        """The path below the block and the side at which a value is read."""
        source = places.parse(self.variant.bound.cells[key]).source
        if not isinstance(source, Side):
            return "", ""
        named = self.variant.bound.roles.get(source.path, source.path)
        return named.removeprefix("block."), source.side

    # -- scales ----------------------------------------------------------------------------------------------------

    def _factors(self, key: str) -> tuple[Factor, ...]:
        """What a contribution is multiplied by: the factors of its cell, or those that the identity gives it.

        Where later steps weigh the whole stream, the identity's factors are theirs.
        """
        own = places.parse(self.variant.bound.cells[key]).factors if key in self.variant.bound.cells else ()
        weighed = any(step.stream or step.whole for step in self.steps[1:])
        return own or (self.terms[key].factors if key in self.terms and not weighed else ())

    def _scales(self, seen: str, factors: Sequence[Factor]) -> tuple[Chip, ...]:
        """Chips for a scale that was seen, by the names that the row gives it."""
        if not seen:
            return ()
        return tuple(self.chips.factor(factor) for factor in factors) or (self.chips.scale(seen == CHANNELS),)

    def _weights(self) -> Iterator[tuple[Chip, ...]]:
        """For every step that weighs the stream, its chips: the row lists the factors of `layer_input` in their order."""
        weighing = [step for step in self.steps if step.stream]
        term = self.terms.get("layer_input")
        plain = term is not None and not any(factor.divides or factor.root for factor in term.factors)
        named = term.factors if term is not None and plain and len(term.factors) == len(weighing) else ()
        for at, step in enumerate(weighing):
            yield (self.chips.factor(named[at]),) if named else (self.chips.scale(step.stream == CHANNELS),)


def whole(variant: Variant) -> tuple[Factor, ...]:
    """Factors on the sum as a whole, as they act on it: the identity states them on its other side."""
    stated = places.identity(variant.identity)[-1].factors if variant.identity else ()
    return tuple(factor.remade(divides=not factor.divides) for factor in stated)


def _modules_in(variant: Variant, path: str) -> list[str]:
    """The modules that a module calls."""
    return [name for name in variant.facts.get("calls", {}).get(path, ()) if name != SOFTMAX]


def _key(term: Term, variant: Variant) -> str:
    """The value that a summand of the identity is; a block without attention adds what its mixer gives."""
    if term.value == "attention_output":
        attends = "self_attn.attention_output" in variant.bound.cells
        return "self_attn.attention_output" if attends else "linear_attn.attention_output"
    return "mlp.mlp_output" if term.value == "mlp_output" else term.value


def _mixes(branch: Branch) -> bool:
    return any(isinstance(part, Core) and part.name in ("self_attn", "linear_attn") for part in branch.parts)
