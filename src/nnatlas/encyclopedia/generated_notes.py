"""Notes on the families that nobody has written any for: sentences made from row, outline and kept measurement.

They have the structure and the sections of notes by hand (see `notes`), and every sentence says what it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from nnatlas.encyclopedia import generated_ends as ends
from nnatlas.encyclopedia import generated_inside as inside
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.generated_facts import Facts
from nnatlas.encyclopedia.notes import Note, Part, Section
from nnatlas.encyclopedia.outline import Outline, kept
from nnatlas.errors import InputError

SECTIONS: Final[dict[str, Callable[[Facts], Iterator[Part]]]] = {
    "The block": inside.block,
    "The contributions": inside.contributions,
    "Queries and keys": inside.queries,
    "Positions": inside.positions,
    "Heads": inside.heads,
    "The experts": inside.experts,
    "The recurrent mixer": inside.mixer,
    "The readout": ends.readout,
    "Values with a meaning of their own": ends.meanings,
    "What is not to be had": ends.absent,
    "Where a law does not hold": ends.exceptions,
    "What loads as this family": ends.loading,
}
"""The sections in order, each with what fills it; empty ones are left out."""


def generate(model_type: str, outline: Outline | None = None) -> Note:
    """Notes on a type; `InputError` where there is no outline or measurement to make them from.

    >>> generate("mistral").sections[0].title
    'The block'
    """
    outline, found = outline or kept(model_type), measurements.measured(model_type)
    if outline is None or found is None or found.error:
        raise InputError(f"notes on {model_type!r} are made from its outline and measurement, and it has not both")
    facts = Facts(model_type, outline, found)
    made = ((title, tuple(part for part in parts(facts) if part)) for title, parts in SECTIONS.items())
    return Note(model_type, tuple(Section(title, parts) for title, parts in made if parts), written=False)
