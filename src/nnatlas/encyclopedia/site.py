"""The whole site: facts in, a folder of pages out, with nothing to fetch and no build step but this.

    index.html                  all families, with search, filters and comparison
    family/<type>.html          a family's page            model/<name>.html    a checkpoint that was run
    vocabulary.html             every value                value/<key>.html     one value on all families
    traits.html, layouts.html   what families and values have in common, each with a page of its own
    coming-from.html            names of other libraries   adding.html          how a family is added
    source/<path>.html          the project's own files, so that links from claims end at the line that proves them
    assets/                     styles and scripts, one file for each job

Pages are made one after the other and written at once, so that a build needs the memory of one page.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnatlas import kin
from nnatlas.encyclopedia import measurements, overview, prose, render, sources
from nnatlas.encyclopedia.agreement import require_agreement
from nnatlas.encyclopedia.links import Links, Site
from nnatlas.encyclopedia.outline import Outline, kept
from nnatlas.encyclopedia.page import family_page
from nnatlas.errors import InputError
from nnatlas.traits import TRAITS
from nnatlas.values import RARE, VALUES, VISION

TEXTS = Path(__file__).parent / "texts"
Page = tuple[str, str]
"""A path below the site's root, and the HTML."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build wrote."""

    out: Path
    pages: int
    families: int
    largest: tuple[str, int]


def outlines(names: Iterable[str]) -> dict[str, Outline]:
    """The outlines of types, once rows, measurements and outlines agree on them; `LawBroken` where they do not."""
    found = {name: kept(name) for name in names}
    require_agreement(found)
    return {name: outline for name, outline in found.items() if outline is not None}


def build(
    out: Path,
    names: Iterable[str] = (),
    models: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Built:
    """Write the site, or with `names` only the pages of those families, into a folder.

    `models` are checkpoints that were run, by name (see `checkpoint.measure`).  Errors: `InputError` for a family that has no
    page or a link that leads nowhere, `LawBroken` where a row and what was measured part ways.

    >>> build(Path("site")).families
    243
    """
    known, wanted = measurements.types(), list(names)
    if unknown := [name for name in wanted if name not in known]:
        raise InputError(f"no page for {unknown[0]!r}: `nnatlas families` lists the model types")
    all_outlines = outlines(known)
    site = Site(known, frozenset(measurements.BADGES), sources.addresses(), tuple(models or ()))
    made = family_pages(site, {name: all_outlines[name] for name in wanted or known})
    pages = made if wanted else _chained(made, other_pages(site, all_outlines, models or {}))
    sizes = {}
    for path, html in pages:
        progress(path)
        sizes[path] = _write(out / path, html)
    _assets(out, all_outlines)
    families = {path: size for path, size in sizes.items() if path.startswith("family/")}
    return Built(out, len(sizes), len(families), max(families.items(), key=lambda item: item[1]))


def _chained(*parts: Iterator[Page]) -> Iterator[Page]:
    for part in parts:
        yield from part


def _write(path: Path, text: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(data)
    return len(data)


def _assets(out: Path, all_outlines: Mapping[str, Outline]) -> None:
    """Styles, scripts, and the facts that the comparison reads, as a script so that it works from a folder too."""
    for name in render.assets():
        (out / "assets").mkdir(parents=True, exist_ok=True)
        shutil.copy(render.ASSETS / name, out / "assets" / name)
    data = json.dumps(overview.comparable(all_outlines), ensure_ascii=False, separators=(",", ":"))
    _write(out / "assets" / "families-data.js", f"window.nnatlasFamilies = {data};\n")


# -- pages -------------------------------------------------------------------------------------------------------------


def family_pages(site: Site, chosen: Mapping[str, Outline]) -> Iterator[Page]:
    """The page of each family."""
    for name, outline in chosen.items():
        links = Links(f"family/{name}", "../", site)
        yield f"family/{name}.html", render.render("family.j2", links, page=family_page(name, outline, links))


def other_pages(site: Site, all_outlines: Mapping[str, Outline], models: Mapping[str, Any]) -> Iterator[Page]:
    """Everything but the families' own pages."""
    listed = overview.entries(all_outlines)
    traits = overview.by_trait(listed)
    yield from _front(site, all_outlines, listed, traits)
    yield from _values(site, all_outlines)
    for key, (trait, having) in traits.items():
        yield _page(
            site,
            f"trait/{key}.html",
            "trait.j2",
            trait=trait,
            having=having,
            glyphs=overview.drawn(having),
            count=len(listed),
            typed=key in TRAITS,
        )
    for layout, axes, values in overview.layouts():
        yield _page(site, f"layout/{layout.name}.html", "layout.j2", layout=layout, axes=axes, values=values)
    for name, run in models.items():
        links = Links(f"model/{name}", "../", site)
        yield f"model/{name}.html", render.render("model.j2", links, **checkpoint_facts(run, links))
    yield _page(site, "sources.html", "sources.j2", folders=sources.by_folder())
    for file in sources.files():
        yield _page(site, file.page, "source.j2", file=file)


def checkpoint_facts(run: Any, links: Links) -> dict[str, Any]:
    """What the page of a checkpoint shows; see `checkpoint.measure`."""
    return {"page": family_page(run.model_type, run.outline, links, run.family), "checkpoint": run}


def _page(site: Site, path: str, template: str, **facts: Any) -> Page:
    """One page by its template; its links start from where it lies."""
    links = Links(path.removesuffix(".html"), "../" * path.count("/"), site)
    return path, render.render(template, links, **facts)


def _front(site: Site, all_outlines: Mapping[str, Outline], listed: Any, traits: Any) -> Iterator[Page]:
    used = [(trait, len(having)) for trait, having in traits.values() if having]
    versions = next(iter(all_outlines.values())).versions
    yield _page(
        site,
        "index.html",
        "index.j2",
        entries=listed,
        traits=used,
        versions=versions,
        models=site.models,
        glyphs=overview.drawn(listed),
        specimens=overview.specimens(listed),
        here="Families",
    )
    yield _page(
        site,
        "vocabulary.html",
        "vocabulary.j2",
        hosts=overview.vocabulary(all_outlines),
        count=len(listed),
        here="Vocabulary",
    )
    yield _page(site, "traits.html", "traits.j2", traits=traits, count=len(listed), here="Traits")
    yield _page(site, "layouts.html", "layouts.j2", layouts=overview.layouts(), here="Layouts")
    libraries = {library: [one for one in kin.table() if one.library == library] for library in kin.LIBRARIES}
    yield _page(site, "coming-from.html", "coming.j2", libraries=libraries, here="From another library")
    adding = (TEXTS / "adding.md").read_text(encoding="utf-8")
    text = prose.document(adding, Links("adding", "", site))
    yield _page(site, "adding.html", "adding.j2", text=text, here="Add a family")


def _values(site: Site, all_outlines: Mapping[str, Outline]) -> Iterator[Page]:
    """A page for every value of the vocabulary, rare ones and those of towers included."""
    for value in (VALUES | RARE | VISION).values():
        made = overview.value_page(value, all_outlines)
        yield _page(site, f"value/{value.key}.html", "value.j2", page=made, count=len(all_outlines))


def alone(run: Any) -> str:
    """The page of a checkpoint as one file, with its styles and scripts inside."""
    links = Links(f"model/{run.name}")
    return render.render("model.j2", links, **checkpoint_facts(run, links))
