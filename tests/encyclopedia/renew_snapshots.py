"""Six pages as they are rendered: four families, a layout and the way from other libraries.

    python -m tests.encyclopedia.renew_snapshots

Beside each lies what it was made from, `*.inputs.txt`: the files by name and content, so that a review of a changed page
shows which of its facts changed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from nnatlas.encyclopedia import measurements, render, sources
from nnatlas.encyclopedia.links import Site
from nnatlas.encyclopedia.site import family_pages, other_pages, outlines

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nnatlas"
FOLDER = Path(__file__).parent / "snapshots"
FAMILIES = ("exaone4", "cohere2", "apex1", "gpt2")
PAGES = (*(f"family/{name}.html" for name in FAMILIES), "layout/Queries.html", "coming-from.html")
ALWAYS = ("values.py", "layouts.py", "traits/named.py", "families/_shapes.py")


@cache
def rendered() -> dict[str, str]:
    """The pages by their path in the site."""
    known = outlines(measurements.types())
    site = Site(measurements.types(), frozenset(measurements.BADGES), sources.addresses())
    made = dict(family_pages(site, {name: known[name] for name in FAMILIES}))
    made |= {path: html for path, html in other_pages(site, known, {}) if path in PAGES}
    return {path: "\n".join(line.rstrip() for line in html.splitlines()) + "\n" for path, html in made.items()}


def inputs(page: str) -> str:
    """The files that a page is made from, each with eight digits of its content."""
    name = Path(page).stem
    own = {
        "family": (f"families/{name}.py", f"data/outlines/{name}.json", f"encyclopedia/notes/{name}.md", *ALWAYS),
        "layout": ("layouts.py", "values.py"),
    }
    paths = [PACKAGE / one for one in own.get(page.partition("/")[0], ("kin/names.py", "values.py"))]
    paths += sorted((render.HERE / "templates").glob("*.j2"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}  {path.relative_to(ROOT)}" for path in paths]
    return "\n".join(lines) + "\n"


def file_of(page: str) -> Path:
    """Where a page is kept."""
    return FOLDER / page.replace("/", "-")


def renew() -> None:
    """Write every page that is kept, and its inputs."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for page, html in rendered().items():
        file_of(page).write_text(html, encoding="utf-8")
        file_of(page).with_suffix(".inputs.txt").write_text(inputs(page), encoding="utf-8")


if __name__ == "__main__":
    renew()
