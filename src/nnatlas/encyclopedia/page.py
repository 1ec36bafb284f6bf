"""The read-only model of a family's page: everything the template shows, and nothing it would have to work out."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from nnatlas import families
from nnatlas.encyclopedia import highlight, measurements, notes
from nnatlas.encyclopedia.anatomy import Anatomy, anatomy
from nnatlas.encyclopedia.drawing import Drawing, drawing
from nnatlas.encyclopedia.flagships import flagship
from nnatlas.encyclopedia.generated_notes import generate
from nnatlas.encyclopedia.links import Links
from nnatlas.encyclopedia.outline import Outline, Variant
from nnatlas.encyclopedia.printout import unfolded
from nnatlas.encyclopedia.prose import Chapter, chapters
from nnatlas.encyclopedia.status import declared
from nnatlas.encyclopedia.tables import HostTable, host_tables
from nnatlas.encyclopedia.words import EVERY, spans, which
from nnatlas.errors import InputError
from nnatlas.families._row import Family
from nnatlas.families._since import SINCE
from nnatlas.traits import Measurement, Trait

SIZES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "qk_head_dim", "vocab_size", "intermediate_size",
         "num_experts", "top_k")  # fmt: skip
"""The sizes that a model answers to by name."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One sort of block, drawn; `blocks` says which blocks are of it, `numbers` lists them for the slider."""

    drawing: Drawing
    blocks: str
    numbers: tuple[int, ...]
    identity: str
    no_identity: str


@dataclass(frozen=True, slots=True)
class FamilyPage:
    """A family's page.

    `title` is the family's name and `lede` the sentence that says what is unusual, both from the row's docstring.  `badges` are
    traits that row and measurement answer for.  `outline` holds the shape that is shown, `pictures` one drawing for each sort of
    block, `tables` the values by host, `sizes` the numbers that the model answers to, `chapters` the notes, and `written` whether
    a person wrote them.  `exceptions` are laws that the row declares not to hold, with what they are about; `sample` names what
    was run.  `source` is the family's file as HTML, `covers` the types it binds, and `kin` the rows nearest to it.
    """

    model_type: str
    title: str
    lede: str
    badges: tuple[Trait, ...]
    outline: Outline
    printout: tuple[str, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[HostTable, ...]
    sizes: Mapping[str, int]
    chapters: tuple[Chapter, ...]
    written: bool
    exceptions: Mapping[str, tuple[str, ...]]
    measured: Measurement | None
    sample: str
    source: Markup
    source_path: str
    covers: tuple[str, ...]
    kin: tuple[str, ...]

    @property
    def stack(self) -> tuple[int, ...]:
        """For every block of the stack, which picture it is drawn by."""
        sorts = {number: at for at, picture in enumerate(self.pictures) for number in picture.numbers}
        return tuple(sorts[number] for number in sorted(sorts))

    @property
    def block_count(self) -> int:
        """How many blocks the drawn stack has, which the slider runs over."""
        return self.outline.blocks

    @property
    def since(self) -> str:
        """The release of transformers that the type needs, where that is not one that everybody has."""
        return SINCE.get(self.model_type, "")


def family_page(model_type: str, outline: Outline, links: Links, row: Family | None = None) -> FamilyPage:
    """Put a page together from row, outline, measurement and notes; `row` for a type that none covers (see `nnatlas.guess`)."""
    known, found = families.rows().get(model_type), measurements.measured(model_type)
    family = known or row
    if family is None:
        raise InputError(f"no row covers {model_type!r}")
    note = notes.read(model_type) or (generate(model_type, outline) if known else None)
    title, lede = named(family, model_type)
    path, text = source_of(family) if known else ("", "")
    return FamilyPage(
        model_type=model_type,
        title=title,
        lede=lede,
        badges=tuple(measurements.BADGES[key] for key in measurements.traits_of(family, found, outline)),
        outline=outline,
        printout=unfolded(outline.printout, (row if known is None and row else row_of(outline, family)).notes),
        pictures=tuple(pictures(outline, row_of(outline, family), found)),
        tables=host_tables(outline, family, found),
        sizes={name: outline.root.sizes[name] for name in SIZES if name in outline.root.sizes},
        chapters=chapters(note, links) if note is not None else (),
        written=note is not None and note.written,
        exceptions=declared(found),
        measured=found,
        sample="the bundled checkpoint" if flagship(model_type).folder else "a small random model of the type",
        source=highlight.python(text),
        source_path=path,
        covers=family.covers,
        kin=tuple(name for name in kin_of(family) if name != model_type),
    )


def row_of(outline: Outline, own: Family) -> Family:
    """The row that the model was bound by: of a wrapper, its text model's."""
    return next((one for one in families.rows().values() if one.name == outline.family), own)


def named(family: Family, model_type: str) -> tuple[str, str]:
    """A family's name and the rest of its docstring's first sentence; a type that only rides along keeps its own name."""
    name, _, rest = family.summary.split("\n")[0].partition(": ")
    if not rest:
        name, rest = model_type, name
    rest = rest.strip()
    return (name if model_type == family.covers[0] else model_type), rest[:1].upper() + rest[1:]


def kin_of(family: Family) -> tuple[str, ...]:
    """Families whose rows start from the same shape, those of one row left out; the nearest by the cells they change.

    Near is: many changed cells in common, then few that only one of the two changes.  At most eight are shown.
    """
    others = {
        one.name: one for one in families.rows().values() if one.shape == family.shape and one.name != family.name
    }
    ranked = sorted(
        others.values(),
        key=lambda one: (-len(one.changed & family.changed), len(one.changed ^ family.changed), one.name),
    )
    return tuple(one.covers[0] for one in ranked[:8])


def source_of(family: Family) -> tuple[str, str]:
    """The repository path and text of the file that a row stands in."""
    module = sys.modules[f"{families.__name__}.{family.name}"]
    path = Path(inspect.getfile(module))
    return f"src/nnatlas/families/{path.name}", path.read_text(encoding="utf-8")


# -- drawings ----------------------------------------------------------------------------------------------------------


def pictures(outline: Outline, row: Family, found: Measurement | None) -> Iterator[Picture]:
    """Every sort of block once; sorts that look the same when drawn are one.

    Blocks may differ in what a drawing does not show, such as a rotary's base: they share a picture, and the slider moves over
    them without a change.
    """
    facts = found.facts if found else frozenset()
    drawn: dict[str, list[Variant]] = {}
    made: dict[str, Anatomy] = {}
    for variant in outline.variants:
        shown = anatomy(outline, variant, row, facts)
        look = repr((shown.caption, shown.enters, shown.stages, shown.leaves, shown.identity))
        drawn.setdefault(look, []).append(variant)
        made.setdefault(look, shown)
    for look, variants in drawn.items():
        numbers = tuple(sorted(block for variant in variants for block in variant.blocks))
        where = which(numbers, outline.blocks)
        title = f"{outline.blocks} × layers[i]" if where == EVERY else f"layers[{_short(numbers)}]"
        yield Picture(drawing(made[look], title), where, numbers, made[look].identity, made[look].no_identity)


def _short(numbers: tuple[int, ...]) -> str:
    """Block numbers in the room of a drawing's title: `0-2, 4-6, …`."""
    said = spans(numbers)
    return said if len(said) < 18 else said[:15].rpartition(",")[0] + ", …"
