"""What notes are made of: a type's row, outline and measurement together, and the words that sentences are joined by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.notes import Mark, Text
from nnatlas.encyclopedia.outline import DEFAULTS, Outline, Variant
from nnatlas.encyclopedia.words import EVERY, which
from nnatlas.families._row import Family
from nnatlas.traits import Measurement
from nnatlas.traits import kept as kept_measurements
from nnatlas.values import RARE, VALUES


@dataclass(frozen=True)
class Facts:
    """All that is known of a type; `row` is the row its blocks are bound by."""

    model_type: str
    outline: Outline
    found: Measurement

    @cached_property
    def own(self) -> Family:
        """The row that covers the type."""
        return families.rows()[self.model_type]

    @cached_property
    def row(self) -> Family:
        """The row that its blocks are bound by: of a wrapper, its text model's."""
        return next((one for one in families.rows().values() if one.name == self.outline.family), self.own)

    @cached_property
    def traits(self) -> frozenset[str]:
        return frozenset(measurements.traits_of(self.row, self.found, self.outline))

    def has(self, *traits: str) -> bool:
        return bool(self.traits & set(traits))

    def of_variants(self, said: Callable[[Variant], str]) -> dict[str, tuple[int, ...]]:
        """What is said of each sort of block that something is said of, with its blocks."""
        found: dict[str, list[int]] = {}
        for variant in self.outline.variants:
            if words := said(variant):
                found.setdefault(words, []).extend(variant.blocks)
        return {words: tuple(sorted(blocks)) for words, blocks in found.items()}

    def where(self, blocks: tuple[int, ...]) -> str:
        """Some blocks in words: `every block`, `every 4th block from 3`, `blocks 0, 2`."""
        return which(blocks, self.outline.blocks)

    def within(self, blocks: tuple[int, ...]) -> str:
        """` in blocks 0, 2`; nothing where it is every block."""
        return "" if self.where(blocks) == EVERY else f" in {self.where(blocks)}"

    @property
    def shape(self) -> str:
        """Whose shape the outline has, to begin a sentence with."""
        named = self.outline.checkpoint and self.outline.known != DEFAULTS
        return f"In {self.outline.checkpoint}" if named else "By the type's defaults"

    # -- sentences -------------------------------------------------------------------------------------------------

    def by_row(self, text: str) -> Text:
        """Said by the row that the blocks are bound by."""
        return Text(text, Mark("row", f"families/{self.row.name}.py"))

    def measured(self, text: str) -> Text:
        """Seen on the tiny model."""
        ways = " and ".join(self.found.attention)
        version = kept_measurements().versions.get("transformers", "")
        return Text(text, Mark("measured", f"nnatlas check under {ways}, transformers {version}"))

    def built(self, text: str) -> Text:
        """Said of the model of a configuration, built without weights."""
        named = f"{self.outline.checkpoint}: " if self.outline.checkpoint and self.outline.known != DEFAULTS else ""
        return Text(text, Mark("built", named + self.outline.known))


def link(key: str) -> str:
    """A value as a link to its page."""
    return f"[{key.rpartition('.')[2]}](value:{key})" if key in VALUES else f"`{(RARE[key]).name}`"


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def capital(text: str) -> str:
    """With a capital letter in front."""
    return text[:1].upper() + text[1:]


def coded(words: str) -> str:
    """A place in words, with module names in code type: ``the output of `self_attn` ``.

    >>> coded("the module self_attn's output, element 0")
    'the output of `self_attn`, element 0'
    """
    words = re.sub(r"the module (\S+)'s (input|output)", r"the \2 of `\1`", words)
    words = re.sub(r"inside ([\w.]+)'s forward", r"inside the forward of `\1`", words)
    return re.sub(r"(times|divided by) (?:block\.)?(\S+)", r"\1 `\2`", words)
