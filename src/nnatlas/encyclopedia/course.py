"""The course of the stream through a block: which modules leave it and are added to it where, worked out from what reads what.

`wiring` tells of every module the sum that it reads.  The sums that begin with the stream are its states,

    layer_input  ->  layer_input + self_attn  ->  layer_input + self_attn + mlp

and each step from one to the next adds branches.  A branch is followed backwards from what it adds to the state that it reads, so
that a parallel block, a second sublayer, a shortcut around it or a norm that stands on the stream itself come out as they are,
whatever the family is called.  A block whose output is no such sum (several streams, learned gates by token) has no course.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

ENTERS: Final = "layer_input"
CHANNELS: Final = "by channel"
"""What stands for a coefficient that is another one in every channel."""
SCALED: Final = "scaled"
"""A coefficient other than 1; which number it is depends on the config, so that only this is kept."""
PLUS: Final = "+"
"""In a branch's chain: what came before is added to the stream, for the next module alone."""
MIXED: Final = "mixed in"
"""In place of a sum: stream and branch are put together in a way that is no sum."""
BESIDE: Final = "|"
"""Between modules of a chain that read the same and stand side by side."""
ANEW: Final = "begins anew"
"""In place of a sum: what the branch gives is the stream from here on."""


Sum = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A module of a block in the order of calls: `path` below the block, and what it reads, each input of the stream's size.

    A None among `reads` is something that no sum of the block explains: what comes from outside, or went through an operation.
    """

    path: str
    name: str
    reads: tuple[Sum | None, ...]


class NoCourse(Exception):
    """The block's output is no sum that begins with the stream."""


@dataclass(slots=True)
class Add:
    """A branch: `chain` are the modules from the stream on; `waits` counts the sums that pass before it is added."""

    chain: list[str]
    waits: int = 0
    scale: str = ""


@dataclass(slots=True)
class Step:
    """From one state to the next: branches that are added, how, and what stands on the stream after the sum.

    `join` is a module that takes stream and branch in place of a plain sum, or `ANEW`.  `stream` scales what was there, `whole`
    the sum.
    """

    adds: list[Add] = field(default_factory=list)
    join: str = ""
    stream: str = ""
    whole: str = ""
    stands: list[str] = field(default_factory=list)


def course(nodes: Sequence[Seen], leaves: Sum | None, parts: frozenset[str]) -> list[Step]:
    """The steps of a block, first to last; `parts` are the paths of its attention, mixer and MLP.

    Errors: `NoCourse` where the output is no sum that begins with the stream.
    """
    if leaves is None:
        raise NoCourse("the output is no sum of what the block's modules give")
    return [step for step in _Course(nodes, parts).to(leaves) if step.adds or step.stands]


def to_data(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """As it is kept in an outline: only what is not empty."""
    return [_filled(step) | ({"adds": [_filled(add) for add in step.adds]} if step.adds else {}) for step in steps]


def from_data(kept: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The steps that `to_data` gave.

    >>> from_data(to_data([Step([Add(["norm", "mlp"])])]))
    [Step(adds=[Add(chain=['norm', 'mlp'], waits=0, scale='')], join='', stream='', whole='', stands=[])]
    """
    return [Step(**{**step, "adds": [Add(**add) for add in step.get("adds", ())]}) for step in kept]


def _filled(record: Any) -> dict[str, Any]:
    return {name: value for name in record.__slots__ if (value := getattr(record, name))}


def loose(nodes: Sequence[Seen], parts: frozenset[str]) -> list[Step]:
    """Branches of a block whose output is no plain sum: by the order of calls, each mixed into the stream at its end.

    A branch begins where a module reads what is no sum of the block and the branch before has passed its part already, or where a
    second part would follow the first; a module that reads an earlier one of its branch forks off there.
    """
    steps: list[Step] = []
    for node in nodes:
        known = [next(iter(one)) for one in node.reads if one]
        passed = {name for add in (steps[-1].adds if steps else ()) for name in add.chain}
        if not steps or (passed & parts and (not set(known) & passed or (node.path in parts and passed & parts))):
            steps.append(Step([Add([node.path])], MIXED))
        elif known and known[0] in passed and known[0] != steps[-1].adds[-1].chain[-1]:
            chain = next(add.chain for add in steps[-1].adds if known[0] in add.chain)
            steps[-1].adds.append(Add([*chain[: chain.index(known[0]) + 1], node.path]))
        else:
            steps[-1].adds[-1].chain.append(node.path)
    return steps


class _Course:
    def __init__(self, nodes: Sequence[Seen], parts: frozenset[str]) -> None:
        self.parts = parts
        self.nodes = {node.path: node for node in reversed(nodes)}  # of a module that is called twice, the first call
        self.order = {node.path: at for at, node in enumerate(nodes)}

    def to(self, whole: Sum) -> list[Step]:
        """The steps that lead to a sum."""
        root = self._root(whole)
        return [*self._before(root), *self._steps(root, whole)]

    def _root(self, whole: Sum) -> str:
        """The summand that all others are made from: the stream."""
        roots = [one for one in whole if all(one in self._ancestors(other) for other in whole if other != one)]
        if not roots:
            raise NoCourse("the summands do not come from one of them")
        return roots[0]

    def _ancestors(self, path: str) -> frozenset[str]:
        found: set[str] = set()
        waiting = [path]
        while waiting:
            read = {one for whole in self._reads(waiting.pop()) for one in whole} - found
            found |= read
            waiting += read
        return frozenset(found)

    def _reads(self, path: str) -> list[Sum]:
        """The sums that a module reads; of one that reads none, that an operation stands between it and the one before."""
        if path not in self.nodes:
            return []
        read = [one for one in self.nodes[path].reads if one]
        before = [name for name, at in self.order.items() if at == self.order[path] - 1]
        return read or [{one: 1} for one in before]

    # -- what stands on the stream ---------------------------------------------------------------------------------

    def _before(self, root: str) -> list[Step]:
        """How a module's output came to be the stream."""
        if root == ENTERS:
            return []
        reads = self._reads(root)
        if not reads:
            raise NoCourse(f"{root} reads what is no sum")
        if len(reads) > 1:
            return self._joined(root, reads)
        before = self.to(reads[0])
        if self._is_part(root) or (before and before[-1].join == ANEW):
            return self._begun_anew(before, root)
        before = before or [Step()]
        before[-1].stands.append(root)
        return before

    def _is_part(self, path: str) -> bool:
        """Whether a module is attention, mixer or MLP: the stream goes through none, it begins anew after it."""
        return path in self.parts

    def _begun_anew(self, before: list[Step], root: str) -> list[Step]:
        """What stood on the stream before, and this module, are a branch that the stream goes on from."""
        if before and before[-1].join == ANEW:
            if self._is_part(root):
                raise NoCourse(f"{root} adds to the stream inside itself")
            before[-1].adds[-1].chain.append(root)
            return before
        stood = before.pop().stands if before and not before[-1].adds else []
        return [*before, Step([Add([*stood, root])], ANEW)]

    def _joined(self, root: str, reads: list[Sum]) -> list[Step]:
        """A module that takes the stream and a branch, the one that the stream is an ancestor of.

        An attention or MLP that does so is handed the stream to add itself to it (BLOOM).
        """
        stream, branch = reads[0], reads[1]
        if self._made_from(stream, branch):
            stream, branch = branch, stream
        steps = self.to(stream)
        states = [frozenset(stream)]
        chain = self._chain(next(iter(branch)), states)[0]
        return [*steps, Step([Add([*chain, root])]) if self._is_part(root) else Step([Add(chain)], root)]

    def _made_from(self, one: Sum, other: Sum) -> bool:
        return any(name in self._ancestors(atom) for atom in one for name in other)

    # -- what is added ---------------------------------------------------------------------------------------------

    def _steps(self, root: str, whole: Sum) -> Iterator[Step]:
        """From state to state, up to the whole sum."""
        states = self._states(root, whole)
        names = [frozenset(state) for state in states]
        for at, (was, now) in enumerate(pairwise(states)):
            step = Step()
            for one in sorted(now.keys() - was.keys(), key=self.order.__getitem__):
                chain, reads = self._chain(one, names)
                step.adds.append(Add(self._side_by_side(chain), at - reads, _word(now[one])))
            yield _scaled(step, was, now)

    def _side_by_side(self, chain: list[str]) -> list[str]:
        """Neighbours that read the same as one entry."""
        made: list[str] = []
        for path in chain:
            last = made[-1].split(BESIDE)[0] if made else ""
            if (
                last in self.nodes
                and path in self.nodes
                and self._reads(last) == self._reads(path)
                and path not in self.parts
            ):
                made[-1] += BESIDE + path
            else:
                made.append(path)
        return made

    def _states(self, root: str, whole: Sum) -> list[Sum]:
        """The sums that begin with the stream and that something reads, smallest first."""
        read = [one for node in self.nodes.values() for one in node.reads if one and root in one]
        alone: Sum = {root: 1}
        found = {frozenset(one): one for one in [alone, *read, whole] if one.keys() <= whole.keys()}
        states = sorted(found.values(), key=len)
        if any(not one.keys() < other.keys() for one, other in pairwise(states)):
            raise NoCourse("two sums of the stream are not part of each other")
        return states

    def _chain(self, path: str, states: Sequence[frozenset[str]]) -> tuple[list[str], int]:
        """The modules from a state on to this one, and the number of that state."""
        reads = self._reads(path)
        for whole in reads:
            if frozenset(whole) in states:
                return [path], states.index(frozenset(whole))
        if not reads:  # the first module called reads the stream joined with something from outside
            return [path], 0
        read = list(dict.fromkeys(one for whole in reads for one in whole))
        others = [one for one in read if not any(one in state for state in states)]
        chains = [self._chain(one, states) for one in others]
        if not chains:
            raise NoCourse(f"{path} reads a sum that is no state of the stream")
        plus = [PLUS] if len(reads[-1]) > 1 else []
        return [*dict.fromkeys(name for chain, _ in chains for name in chain), *plus, path], chains[0][1]


def _word(number: float | str) -> str:
    return number if isinstance(number, str) else "" if number == 1 else SCALED


def _scaled(step: Step, was: Sum, now: Sum) -> Step:
    """With what the stream, or the sum as a whole, is multiplied by."""
    kept = [_ratio(was[one], now[one]) for one in was]
    if CHANNELS in kept:
        step.stream = CHANNELS
        return step
    numbers = {
        round(float(one), 2)
        for one in [*kept, *(now[add.chain[-1].rpartition(BESIDE)[2]] for add in step.adds)]
        if one != ""
    }
    if len(numbers) == 1 and numbers != {1.0} and not any(add.scale == CHANNELS for add in step.adds):
        step.whole = SCALED
        for add in step.adds:
            add.scale = ""
    elif any(one not in (1, "") for one in kept):
        step.stream = SCALED
    return step


def _ratio(was: float | str, now: float | str) -> float | str:
    """By how much a summand has changed; nothing where both are by channel."""
    if isinstance(was, str) or isinstance(now, str):
        return "" if was == now else CHANNELS
    return round(now / was, 2)
