"""What to know before you run: the notes on a family, and the one home of the format they are written in.

`notes/<model_type>.md` is Markdown with `## ` sections, in which every statement says how it is known:

    Two norms stand before the sublayers. {checked: two_pre_norms}      a claim: a test function of that name proves it
    - The sink takes 0.84 of the attention. {reported: model card}      a claim on weights that no test has, and its source
    Queries and keys part ways here:                                    a lead: it ends in a colon and claims nothing itself

    ```equations block_equations      equations, one a line; the word is the test function that computes them
    ```python                         an example, run on `model = nnatlas.load("tiny:<model_type>")`, or on the bundled checkpoint
    ```python no-run                  an example that needs a real checkpoint

Links are `[apertus](family:apertus)`, `[layer_mid](value:layer_mid)`, `[Queries](layout:Queries)` and `[rotary](trait:rotary)`.
`generated_notes` makes notes of the same structure from a row and its measurement; those are marked `row`, `built` and `measured`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nnatlas.errors import InputError

if TYPE_CHECKING:
    from markdown_it.token import Token

FOLDER: Final = Path(__file__).parent / "notes"
SECTIONS: Final = (
    "The block",
    "The contributions",
    "Positions",
    "Heads",
    "The readout",
    "The tokenizer",
    "What loads as this family",
)
"""The questions that every hand-written note answers, in this order; sections of a family's own may stand between."""
HOWS: Final = {
    "checked": "a test runs it on the family's tiny model",
    "reported": "said of weights or files that no test has; the source is named",
    "row": "read off the family's row",
    "built": "read off the model of a configuration, built without weights",
    "measured": "measured on the family's tiny model by nnatlas check",
}
_MARK = re.compile(r"\s*\{(checked|reported): ([^{}]+)\}$")
_LINK = re.compile(r"\]\((family|value|layout|trait):([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Mark:
    """How a claim is known (a key of HOWS), and by what: a test function, or a source in words."""

    how: str
    by: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph or list item: inline Markdown without its mark.  Only a lead, which ends in a colon, has none."""

    text: str
    mark: Mark | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Items:
    """A list, every item a claim."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A Python example; `runs` says whether the tests run it on the family's tiny model."""

    code: str
    runs: bool = True
    line: int = 0


@dataclass(frozen=True, slots=True)
class Equations:
    """Equations in plain text, one a line, and the test function that computes them."""

    lines: tuple[str, ...]
    mark: Mark | None = None
    line: int = 0


Part = Text | Items | Code | Equations


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a note."""

    title: str
    parts: tuple[Part, ...]

    @property
    def anchor(self) -> str:
        """The title as a fragment of a page's address.

        >>> Section("The readout", ()).anchor
        'the-readout'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Note:
    """The notes on one model type; `written` by hand, or generated."""

    model_type: str
    sections: tuple[Section, ...]
    written: bool = True

    def parts(self) -> Iterator[Part]:
        return (part for section in self.sections for part in section.parts)

    def texts(self) -> Iterator[Text]:
        """Every paragraph and list item."""
        for part in self.parts():
            yield from part.items if isinstance(part, Items) else [part] if isinstance(part, Text) else []

    def marks(self) -> Iterator[Mark]:
        """How each claim and each set of equations is known."""
        equations = (part for part in self.parts() if isinstance(part, Equations))
        marked: list[Text | Equations] = [*self.texts(), *equations]
        yield from (one.mark for one in marked if one.mark is not None)

    def examples(self) -> Iterator[Code]:
        return (part for part in self.parts() if isinstance(part, Code))

    def links(self) -> Iterator[tuple[str, str]]:
        """What the notes point to: `("value", "layer_mid")`."""
        return ((kind, name) for one in self.texts() for kind, name in _LINK.findall(one.text))


def written() -> tuple[str, ...]:
    """The model types with notes by hand."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.md")))


def read(model_type: str) -> Note | None:
    """A type's notes by hand, or None; `InputError` with file and line where they are not in the format."""
    path = FOLDER / f"{model_type}.md"
    return parse(path.read_text(encoding="utf-8"), model_type) if path.is_file() else None


def parse(text: str, model_type: str) -> Note:
    r"""The notes that `text` is the source of.

    >>> note = parse("## Heads\n\nFour share one key. {checked: groups}\n", "llama")
    >>> note.sections[0].parts[0].mark
    Mark(how='checked', by='groups')
    """
    from markdown_it import MarkdownIt

    return Note(model_type, tuple(_Reader(MarkdownIt("commonmark").parse(text), model_type).sections()))


@dataclass(slots=True)
class _Reader:
    """Goes through Markdown's tokens once; `at` is the next one."""

    tokens: list[Token]
    model_type: str
    at: int = field(default=0)

    def sections(self) -> Iterator[Section]:
        while self.at < len(self.tokens):
            title = self._expect("heading_open", "a section, ## and its title")
            if title.tag != "h2":
                raise self._fault(title, f"sections are ## here, not {title.markup}")
            name = self._inline("heading_close")
            yield Section(name, tuple(self._parts()))

    def _parts(self) -> Iterator[Part]:
        while self.at < len(self.tokens) and self.tokens[self.at].type != "heading_open":
            token = self._next()
            if token.type == "paragraph_open":
                yield self._claim(self._inline("paragraph_close"), token)
            elif token.type == "bullet_list_open":
                yield Items(tuple(self._items()))
            elif token.type == "fence":
                yield self._fence(token)
            else:
                raise self._fault(token, f"paragraphs, - lists and fences are what notes are made of, not {token.type}")

    def _items(self) -> Iterator[Text]:
        while self._next().type != "bullet_list_close":
            opened = self._expect("paragraph_open", "one paragraph as a list item")
            yield self._claim(self._inline("paragraph_close"), opened)
            self._expect("list_item_close", "one paragraph as a list item")

    def _fence(self, token: Token) -> Part:
        kind, _, rest = token.info.strip().partition(" ")
        if kind == "equations" and rest.isidentifier():
            return Equations(tuple(token.content.strip("\n").split("\n")), Mark("checked", rest), _line(token))
        if kind == "python" and rest in ("", "no-run"):
            return Code(token.content, not rest, _line(token))
        raise self._fault(
            token, f"fences are `python`, `python no-run` and `equations <test function>`, not {token.info!r}"
        )

    def _claim(self, text: str, token: Token) -> Text:
        found = _MARK.search(text)
        if found:
            return Text(text[: found.start()], Mark(found[1], found[2].strip()), _line(token))
        if not text.endswith(":"):
            raise self._fault(token, f"say how it is known, {{checked: ...}} or {{reported: ...}}: {text[:60]!r}")
        return Text(text, None, _line(token))

    def _inline(self, closing: str) -> str:
        content = self._expect("inline", "text").content
        self._expect(closing, "the end of the text")
        return " ".join(content.split("\n"))

    def _next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, kind: str, wanted: str) -> Token:
        token = self._next()
        if token.type != kind:
            raise self._fault(token, f"{wanted} is expected here, not {token.type}")
        return token

    def _fault(self, token: Token, message: str) -> InputError:
        return InputError(f"notes/{self.model_type}.md:{_line(token)}: {message}")


def _line(token: Token) -> int:
    """The line in the file, from 1."""
    return token.map[0] + 1 if token.map else 0
