"""Cells in words, with the module names of the type at hand."""

from __future__ import annotations

from itertools import pairwise

from nnatlas import places
from nnatlas.encyclopedia.outline import Bound
from nnatlas.places import Derived
from nnatlas.values import VISION_HOSTS


def place_words(cell: str, bound: Bound, root: Bound, host: str = "block") -> str:
    """Where a value is read, in words: `the module o_proj's input`, with native names for roles.

    In the cells of a tower or projector `block` stands for the host itself.
    """
    place = places.parse(cell)
    if isinstance(place.source, Derived):
        return place.source.words({})
    itself = host if host in VISION_HOSTS else "block"
    names = {**root.roles, **bound.roles, "block": itself, "root": "model"}
    return place.words(names).replace("root.", "")


def spans(numbers: tuple[int, ...]) -> str:
    """`(0, 1, 2, 5)` as `0-2, 5`.

    >>> spans((0, 1, 2, 5))
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


EVERY = "every block"


def which(numbers: tuple[int, ...], count: int) -> str:
    """Some blocks of a stack in words, by a rule where that is shorter than their numbers.

    >>> which((3, 7, 11, 15), 16), which((0, 1, 3, 4, 6, 7, 9, 10), 12), which((0, 2), 4)
    ('every 4th block from 3', 'all but every 3rd block from 2', 'blocks 0, 2')
    """
    if len(numbers) == count:
        return EVERY
    others = tuple(sorted(set(range(count)) - set(numbers)))
    rule = _rule(numbers, count) or (f"all but {other}" if (other := _rule(others, count)) else "")
    said = f"{'block' if len(numbers) == 1 else 'blocks'} {spans(numbers)}"
    return rule if rule and len(said) > len(rule) - 14 else said


def _rule(numbers: tuple[int, ...], count: int) -> str:
    """`every 4th block from 3`, if the numbers go on like that to the end."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) < 4 or len(steps) != 1:
        return ""
    step = steps.pop()
    runs_out = numbers[-1] + step >= count and numbers[0] < step
    return (
        f"every {step}{ {2: 'nd', 3: 'rd'}.get(step, 'th') } block from {numbers[0]}" if step > 1 and runs_out else ""
    )
