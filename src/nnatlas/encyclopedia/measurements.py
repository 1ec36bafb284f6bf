"""What was measured of a type, for pages: the package's kept measurements, and those of types that nnatlas brings itself.

Pages never measure: a build takes seconds because `nnatlas check --all` was run before and its findings are kept.  What only
shows in an outline (how a rotary turns, whether an activation learns) is asked here, beside the traits that a measurement shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from nnatlas import families
from nnatlas.encyclopedia.flagships import flagship
from nnatlas.encyclopedia.outline import Outline
from nnatlas.families._row import Family
from nnatlas.traits import TRAITS, Measurement, Trait, kept
from nnatlas.traits.measured import Kept, read

OWN: Final = Path(__file__).parents[1] / "data" / "own_types.json"
"""Types defined here rather than in transformers, measured in the same form as `support.json`."""
TOWERS: Final = Path(__file__).parents[1] / "data" / "vision.json"
"""What `nnatlas check --all --vision` found of the towers in front of text models."""


@cache
def own() -> Kept:
    """The measurements of types that nnatlas defines itself."""
    return read(OWN)


def measured(model_type: str) -> Measurement | None:
    """What was measured of a type, or None."""
    return kept().types.get(model_type) or own().types.get(model_type)


@cache
def _towers() -> dict[str, Any]:
    return json.loads(TOWERS.read_text(encoding="utf-8"))["types"] if TOWERS.is_file() else {}


def tower(model_type: str) -> Mapping[str, Any] | None:
    """What was measured of a type's tower: `served` values and `laws`; None where it was not run with an image."""
    found: Mapping[str, Any] | None = _towers().get(model_type)
    return found


def types() -> tuple[str, ...]:
    """Every type that has a page."""
    rows = families.rows()
    return tuple(sorted(name for name in {**kept().types, **own().types} if name in rows))


FURTHER: Final = {
    "interleaved-rotary": (
        "Interleaved rotary",
        "the rotary turns neighbouring dimensions with each other, not the two halves of a head",
        lambda outline: any(variant.facts.get("turns") == "pairs" for variant in outline.variants),
    ),
    "learned-activation": (
        "Learned activation",
        "the activation function has parameters of its own in every block",
        lambda outline: "learns its activation" in outline.facts,
    ),
}
"""Traits that show in an outline rather than in the kept measurement."""

BADGES: Final = TRAITS | {
    key: Trait(key, name.lower(), meaning, lambda *_: False) for key, (name, meaning, _) in FURTHER.items()
}
"""Every trait that a page may show."""


def _heads(outline: Outline) -> dict[str, int]:
    """How many heads of each sort a checkpoint has whose figures are known; a tiny model's say what its type can do.

    Tiny models share keys among heads wherever a type allows it; the named checkpoint may not.
    """
    return {name: outline.root.sizes[name] for name in ("num_heads", "num_kv_heads") if name in outline.root.sizes}


def traits_of(family: Family, found: Measurement | None, outline: Outline | None) -> tuple[str, ...]:
    """The keys of a type's traits, those of its outline included."""
    if found is None or found.error:
        return ()
    if outline is not None and flagship(outline.model_type).config:
        found = replace(found, sizes={**found.sizes, **_heads(outline)})
    shown = [key for key, trait in TRAITS.items() if trait.shown(family, found)]
    further = [key for key, (_, _, shows) in FURTHER.items() if outline is not None and shows(outline)]
    return (*shown, *further)
