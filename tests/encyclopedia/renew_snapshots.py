"""Six pages as they are rendered: four families, a value and the way from other libraries.

python -m tests.encyclopedia.renew_snapshots
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from nnatlas.encyclopedia import measurements, sources
from nnatlas.encyclopedia.links import Site
from nnatlas.encyclopedia.site import family_pages, other_pages, outlines

FOLDER = Path(__file__).parent / "snapshots"
FAMILIES = ("exaone4", "cohere2", "apex1", "gpt2")
PAGES = (*(f"family/{name}.html" for name in FAMILIES), "layout/Queries.html", "coming-from.html")


@cache
def rendered() -> dict[str, str]:
    """The pages by their path in the site."""
    known = outlines(measurements.types())
    site = Site(measurements.types(), frozenset(measurements.BADGES), sources.addresses())
    made = dict(family_pages(site, {name: known[name] for name in FAMILIES}))
    made |= {path: html for path, html in other_pages(site, known, {}) if path in PAGES}
    return {path: "\n".join(line.rstrip() for line in html.splitlines()) + "\n" for path, html in made.items()}


def renew() -> None:
    """Write every page that is kept."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.html"):
        path.unlink()
    for name, html in rendered().items():
        (FOLDER / name.replace("/", "-")).write_text(html, encoding="utf-8")


if __name__ == "__main__":
    renew()
