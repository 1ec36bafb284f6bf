"""Notes as HTML: inline Markdown with links to other pages, marks as badges, examples highlighted.

    Scores are capped before the mask is added. {checked: no_score_beyond_the_cap}

becomes a paragraph and a badge that leads to the test of that name.  Raw HTML in a note is shown as text: everything is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from nnatlas.encyclopedia import highlight
from nnatlas.encyclopedia.links import KINDS, Links
from nnatlas.encyclopedia.notes import HOWS, Code, Equations, Items, Mark, Note, Part, Text


@dataclass(frozen=True, slots=True)
class Badge:
    """How a claim is known: the word, what it says when pointed at, and where that lies."""

    how: str
    by: str
    title: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A paragraph or list item as HTML, with its badge."""

    html: Markup
    badge: Badge | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a section: `kind` is text, items, code or equations."""

    kind: str
    claims: tuple[Claim, ...] = ()
    code: str = ""
    lines: tuple[str, ...] = ()
    badge: Badge | None = None
    runs: bool = True


@dataclass(frozen=True, slots=True)
class Chapter:
    """A titled section."""

    title: str
    anchor: str
    pieces: tuple[Piece, ...]


def chapters(note: Note, links: Links) -> tuple[Chapter, ...]:
    """A note's sections for the template."""
    return tuple(
        Chapter(section.title, f"note-{section.anchor}", tuple(_piece(part, note, links) for part in section.parts))
        for section in note.sections
    )


def _piece(part: Part, note: Note, links: Links) -> Piece:
    if isinstance(part, Code):
        return Piece("code", code=highlight.python(part.code), runs=part.runs)
    if isinstance(part, Equations):
        return Piece("equations", lines=part.lines, badge=_badge(part.mark, note, links))
    if isinstance(part, Items):
        return Piece("items", tuple(_claim(one, note, links) for one in part.items))
    return Piece("text", (_claim(part, note, links),))


def _claim(text: Text, note: Note, links: Links) -> Claim:
    return Claim(inline(text.text, links), _badge(text.mark, note, links))


def _badge(mark: Mark | None, note: Note, links: Links) -> Badge | None:
    """How a claim is known; a checked one leads to its test, in the family's own module of claims or the shared one."""
    if mark is None:
        return None
    if mark.how == "row":
        return Badge("row", mark.by, HOWS["row"], links.maybe("source", f"src/nnatlas/{mark.by}"))
    if mark.how != "checked":
        return Badge(mark.how, mark.by, f"{HOWS[mark.how]}: {mark.by}", None)
    homes = [f"tests/encyclopedia/claims/{name}.py" for name in (note.model_type, "common")]
    href = next((found for path in homes if (found := links.maybe("source", f"{path}#{mark.by}"))), None)
    return Badge("checked", mark.by, f"checked by the test {mark.by}", href)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False})


def inline(text: str, links: Links) -> Markup:
    """Inline Markdown; `[apertus](family:apertus)` and its like become links, or plain text on a page that stands alone."""
    made = _markdown()
    tokens = made.parseInline(text, {})
    for token in tokens:
        token.children = list(_resolved(token.children or [], links))
    return Markup(made.renderer.render(tokens, made.options, {}))


def _resolved(tokens: list[Token], links: Links) -> Iterator[Token]:
    """Tokens with `kind:name` links made addresses; of a link that a page cannot have, only the text stays."""
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            href = _address(str(token.attrs.get("href", "")), links)
            dropped = href is None
            token.attrs["href"] = href or ""
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token
        dropped = dropped and token.type != "link_close"


def _address(given: str, links: Links) -> str | None:
    kind, _, name = given.partition(":")
    return links.to(kind, name) if kind in KINDS else given


def document(text: str, links: Links) -> Markup:
    """A whole Markdown text, with fenced Python highlighted."""
    made = MarkdownIt("commonmark", {"html": False, "highlight": _highlighted}).enable("table")
    tokens = made.parse(text)
    for token in tokens:
        token.children = list(_resolved(token.children, links)) if token.children else token.children
    html = made.renderer.render(tokens, made.options, {})
    return Markup(html.replace("<pre>", '<pre tabindex="0">'))  # what scrolls can be reached by keyboard


def _highlighted(code: str, language: str, _: Any) -> str:
    return str(highlight.python(code)) if language == "python" else ""
