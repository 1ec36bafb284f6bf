"""The models of the pages about all families: the front page, values, traits, layouts, other libraries' names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nnatlas import families, kin
from nnatlas.encyclopedia import measurements, notes
from nnatlas.encyclopedia.glyphs import Glyph, glyphs
from nnatlas.encyclopedia.outline import Bound, Outline
from nnatlas.encyclopedia.page import named, row_of
from nnatlas.encyclopedia.words import place_words
from nnatlas.families._row import Family
from nnatlas.layouts import AXES, LAYOUTS, Layout
from nnatlas.traits import Trait
from nnatlas.values import HOSTS, RARE, VALUES, VISION_HOSTS, Value, host_path, on_host

Outlines = Mapping[str, Outline]


@dataclass(frozen=True, slots=True)
class Entry:
    """A family as lists show it: name, sentence, traits by key, whether its notes are written by hand, and its glyphs."""

    model_type: str
    title: str
    lede: str
    traits: tuple[str, ...]
    noted: bool
    glyphs: tuple[Glyph, ...] = ()

    @property
    def words(self) -> str:
        """What a search looks through."""
        return f"{self.model_type} {self.title} {self.lede}".lower()


def entries(outlines: Outlines) -> tuple[Entry, ...]:
    """Every family, by name."""
    rows, noted = families.rows(), set(notes.written())
    return tuple(_entry(name, rows[name], outline, name in noted) for name, outline in outlines.items())


def _entry(model_type: str, family: Family, outline: Outline, noted: bool) -> Entry:
    title, lede = named(family, model_type)
    found = measurements.measured(model_type)
    traits = measurements.traits_of(family, found, outline)
    shown = glyphs(outline, row_of(outline, family), found.facts if found else frozenset())
    return Entry(model_type, title, lede, traits, noted, shown)


def drawn(listed: Iterable[Entry]) -> tuple[Glyph, ...]:
    """The glyphs that a list of families needs, each once."""
    return tuple(dict.fromkeys(glyph for entry in listed for glyph in entry.glyphs))


@dataclass(frozen=True, slots=True)
class Specimen:
    """A way to build a block, with a family that stands for it and how many families are built so."""

    glyph: Glyph
    entry: Entry
    count: int


def specimens(listed: Iterable[Entry], most: int = 12) -> tuple[Specimen, ...]:
    """The most frequent shapes of block, each by a family: one with notes by hand if there is, and the plainest of them."""
    found: dict[Glyph, list[Entry]] = {}
    for entry in listed:
        for glyph in entry.glyphs[:1]:
            found.setdefault(glyph, []).append(entry)
    common = sorted(found.items(), key=lambda item: (-len(item[1]), item[1][0].model_type))[:most]
    chosen = {
        glyph: min(same, key=lambda one: (not one.noted, len(one.traits), one.model_type)) for glyph, same in common
    }
    return tuple(Specimen(glyph, chosen[glyph], len(same)) for glyph, same in common)


# -- comparing ---------------------------------------------------------------------------------------------------------

COMPARED = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "intermediate_size", "num_experts", "top_k",
            "vocab_size")  # fmt: skip


def comparable(outlines: Outlines) -> dict[str, dict[str, Any]]:
    """What the table of families side by side shows, as plain data for the script.

    Facts by type, each by the words that head its line; the script marks the lines in which chosen families differ.
    """
    return {entry.model_type: _compared(entry, outlines[entry.model_type]) for entry in entries(outlines)}


def _compared(entry: Entry, outline: Outline) -> dict[str, Any]:
    row = row_of(outline, families.rows()[entry.model_type])
    first, sizes = outline.variants[0], outline.root.sizes
    served = {key for key, _ in outline.served()}
    names = [measurements.BADGES[key].name for key in entry.traits]
    return {
        "family": entry.title,
        "what is unusual": entry.lede,
        "traits": ", ".join(names),
        "starts from": row.shape,
        "stream": first.identity or f"no plain sum: {first.no_identity}",
        "readout": row.readout if isinstance(row.readout, str) else row.readout.reason,
        "norms": ", ".join(
            first.bound.roles.get(role, "").rpartition(".")[2] for role in _NORMS if role in first.bound.roles
        ),
        "figures of": outline.known if outline.of_defaults else outline.checkpoint or outline.known,
        **{name: sizes.get(name, "") for name in COMPARED},
        "values it lacks": ", ".join(key for key in VALUES if key not in served and VALUES[key].host != "linear_attn"),
    }


_NORMS = ("attention_norm", "attention_post_norm", "mlp_norm", "mlp_post_norm", "q_norm", "k_norm")


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Families that have something in common: a cell with its words, or a reason.

    Grouping by cell is what makes a value's page readable: most of 243 families share a handful of places.
    """

    cell: str
    words: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValuePage:
    """One value on all families."""

    value: Value
    path: str
    host: str
    served: tuple[Group, ...]
    absent: tuple[Group, ...]
    kin: tuple[kin.Kin, ...]
    count: int

    @property
    def anchor(self) -> str:
        """Where the page of a family that lacks the value says so."""
        return "" if self.value.host in VISION_HOSTS else f"#host-{self.value.host}"


def value_page(value: Value, outlines: Outlines) -> ValuePage:
    """Where every family reads a value, and why some do not have it."""
    read: dict[str, list[str]] = {}
    lacking: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    having: set[str] = set()
    for name, outline in outlines.items():
        for bound in outline.at(value.host):
            if (cell := bound.cells.get(value.key)) is not None:
                words.setdefault(cell, place_words(cell, Bound(), Bound(), value.host))
                read.setdefault(cell, []).append(name)
                having.add(name)
        if name not in having:
            lacking.setdefault(_reason(value, outline), []).append(name)
    return ValuePage(
        value, value.typed, (HOSTS | VISION_HOSTS)[value.host],
        tuple(_groups(read, words)), tuple(_groups(lacking, {})),
        tuple(one for one in kin.table() if one.ours == value.key), len(having),
    )  # fmt: skip


def _groups(found: Mapping[str, list[str]], words: Mapping[str, str]) -> Iterator[Group]:
    """Largest group first; without words the key is the reason itself."""
    for said, names in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        yield Group(said if words else "", words.get(said, said), tuple(dict.fromkeys(names)))


NO_TOWER = "the type takes no images, or not by a tower that is served"


def _reason(value: Value, outline: Outline) -> str:
    """Why a type does not have a value: the row's words on it, or on the part that it would hang on."""
    bound = next(iter(outline.at(value.host)), None)
    if bound is None:
        return NO_TOWER
    return bound.absent.get(value.key) or bound.absent.get(value.host) or "the row does not say where it is"


def vocabulary(outlines: Outlines) -> list[tuple[str, str, list[tuple[Value, int]]]]:
    """Host, what it is, and its values with the number of families that have them."""
    served = {name: {key for key, _ in outline.served()} for name, outline in outlines.items()}
    hosts = HOSTS | VISION_HOSTS
    return [
        (
            host_path(host), said,
            [
                (value, sum(value.key in keys for keys in served.values()))
                for value in (*on_host(host), *(one for one in RARE.values() if one.host == host))
            ],
        )
        for host, said in hosts.items()
    ]  # fmt: skip


# -- traits and layouts ------------------------------------------------------------------------------------------------


def by_trait(listed: tuple[Entry, ...]) -> dict[str, tuple[Trait, tuple[Entry, ...]]]:
    """Every trait with its families."""
    return {
        key: (trait, tuple(entry for entry in listed if key in entry.traits))
        for key, trait in measurements.BADGES.items()
    }


def layout_values(layout: Layout) -> tuple[Value, ...]:
    """The values that come in a layout."""
    return tuple(value for value in VALUES.values() if value.layout == layout)


def layouts() -> list[tuple[Layout, list[tuple[str, str]], tuple[Value, ...]]]:
    """Every layout that has axes, each axis with its meaning, and the values in it."""
    return [
        (layout, [(axis, AXES.get(axis, "")) for axis in layout.axes], layout_values(layout))
        for layout in LAYOUTS.values()
    ]
