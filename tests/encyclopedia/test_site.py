"""The site as a whole: every family has a page, every link leads somewhere, the HTML is valid, nothing comes from outside."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import html5lib
import pytest

from nnatlas import families
from nnatlas.encyclopedia import measurements, render
from nnatlas.encyclopedia.links import Links, Site
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.page import family_page
from nnatlas.encyclopedia.site import build
from nnatlas.errors import InputError
from nnatlas.layouts import LAYOUTS
from nnatlas.traits import kept as measured
from nnatlas.values import VALUES

KILOBYTES = 150
SECONDS = 60


class Reader(HTMLParser):
    """Collects what a page points to, and what can be pointed at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.refers: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids += [found["id"]] if "id" in found else []
        self.hrefs += [found[name] for name in ("href", "src") if name in found and not found[name].startswith("data:")]
        self.refers += [one for name in ("for", "aria-labelledby") if name in found for one in found[name].split()]
        if tag in ("script", "link", "img", "iframe"):
            self.outside += [found.get(name, "") for name in ("src", "href") if "//" in found.get(name, "")]


@cache
def read(path: Path) -> Reader:
    return Reader(path.read_text(encoding="utf-8"))


def test_every_measured_type_has_a_page(site):
    assert {path.stem for path in (site.folder / "family").glob("*.html")} == set(measured().types) | {"apex1"}
    assert site.built.families == len(measured().types) + 1


def test_values_traits_and_layouts_have_pages(site):
    assert {path.stem for path in (site.folder / "value").glob("*.html")} >= set(VALUES)
    assert {path.stem for path in (site.folder / "layout").glob("*.html")} == set(LAYOUTS)
    assert {path.stem for path in (site.folder / "trait").glob("*.html")} == set(measurements.BADGES)
    for page in ("index", "vocabulary", "coming-from", "adding", "traits", "layouts", "sources", "model/apex-1"):
        assert (site.folder / f"{page}.html").is_file()


def test_pages_are_small_and_quickly_built(site):
    sizes = {path.stem: path.stat().st_size for path in (site.folder / "family").glob("*.html")}
    assert {name: size for name, size in sizes.items() if size > KILOBYTES * 1000} == {}
    assert site.seconds < SECONDS


def test_no_link_is_dead(site):
    dead = []
    for path in site.pages():
        for href in read(path).hrefs:
            target, anchor = urldefrag(href)
            there = (path.parent / unquote(target)).resolve() if target else path
            if not there.is_file() or (anchor and "=" not in anchor and unquote(anchor) not in read(there).ids):
                dead.append(f"{path.relative_to(site.folder)}: {href}")
    assert dead == []


def test_the_link_check_would_see_a_dead_one():
    page = Reader('<p id="a"><a href="b.html#c">x</a><label for="d">')
    assert (page.ids, page.hrefs, page.refers) == (["a"], ["b.html#c"], ["d"])


def test_html_is_valid(site):
    """Parsed strictly, as browsers must: no error on any page but the family pages, of which every eighth is read."""
    families_shown = sorted((site.folder / "family").glob("*.html"))[::8]
    others = [path for path in site.pages() if path.parent.name not in ("family", "families")]
    wrong = []
    for path in [*families_shown, *others]:
        parser = html5lib.HTMLParser(strict=False)
        parser.parse(path.read_text(encoding="utf-8"))
        wrong += [f"{path.name}: {at}: {code} {data}" for at, code, data in parser.errors]
    assert wrong == []
    for path in [
        *families_shown,
        *others,
    ]:  # what the parser lets pass: a caption comes first, a label names one control
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(?:colgroup|thead|tbody)[^>]*>(?:(?!</table>).)*<caption", text, re.DOTALL), path
        assert not re.search(r"<label(?:(?!</label>).)*<output", text, re.DOTALL), path


def test_ids_are_unique_and_labels_name_one(site):
    for path in site.pages():
        page = read(path)
        assert [name for name, count in Counter(page.ids).items() if count > 1] == [], path
        assert [name for name in page.refers if name not in page.ids] == [], path


def test_nothing_is_fetched_from_outside(site):
    for path in site.pages():
        assert read(path).outside == [], path
    styles = "".join((site.folder / "assets" / name).read_text() for name in render.assets())
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttpRequest", styles)


def test_every_string_is_escaped(monkeypatch):
    row = families.rows()["llama"]
    nasty = '<script>alert("x")</script> & "quotes"'
    monkeypatch.setitem(families.rows(), "llama", row.remade(summary=f"Llama: {nasty}", notes={"layer_mid": nasty}))
    outline, links = (
        kept("llama"),
        Links("family/llama", "../", Site(measurements.types(), frozenset(measurements.BADGES))),
    )
    html = render.render("family.j2", links, page=family_page("llama", outline, links))
    assert "alert(" in html and "<script>alert" not in html
    assert html.count("&lt;script&gt;alert") >= 2


def test_a_link_that_leads_nowhere_stops_the_build():
    links = Links("family/llama", "../", Site(["llama"]))
    with pytest.raises(InputError, match="page family/llama: the link family:lama leads nowhere"):
        links.to("family", "lama")
    assert Links("alone").to("family", "llama") is None


def test_one_family_is_written_alone(tmp_path):
    assert build(tmp_path, ["gpt2"]).pages == 1
    assert [path.name for path in tmp_path.rglob("*.html")] == ["gpt2.html"]
    with pytest.raises(InputError, match="no page for 'gpt22'"):
        build(tmp_path, ["gpt22"])
