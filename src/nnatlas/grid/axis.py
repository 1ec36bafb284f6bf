"""Axes: a name, and a label for each place along it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnatlas.show import readable, visible


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis of a grid.

    Args:
        name: what is counted: "layer", "position", "head".
        labels: what stands at each place; texts of tokens as they are, spaces and all.
        numbered: whether a place is told by its number as well as by its label, as positions of tokens are, whose
            labels may repeat.

    >>> Axis("position", [" Paris", "\\n"], numbered=True).words(1)
    'position 1 ↵'
    >>> Axis("head", ["5.2", "5.3"]).words(1)
    'head 5.3'
    """

    name: str
    labels: tuple[str, ...]
    numbered: bool

    def __init__(self, name: str, labels: Iterable[object], numbered: bool = False) -> None:
        for field, value in (("name", name), ("labels", tuple(map(str, labels))), ("numbered", numbered)):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shown(self) -> list[str]:
        """The labels with everything in them to be seen."""
        return [visible(label) for label in self.labels]

    def words(self, at: int) -> str:
        """A place in words."""
        number = f" {at}" if self.numbered else ""
        return f"{readable(self.name)}{number} {visible(self.labels[at])}".rstrip()
