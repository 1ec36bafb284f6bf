"""The project's own files as pages, so that what a page claims can be followed to the line that says it.

A claim's badge leads to the test that proves it, a place to the row that states it, a trait to the question that it answers.
Names defined at the top of a file are anchors: `path#name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import Markup

from nnatlas.encyclopedia import highlight

PACKAGE: Final = Path(__file__).parents[1]
SHOWN: Final = (
    "families/*.py", "values.py", "layouts.py", "places.py", "traits/named.py", "kin/names.py", "check/*.py",
    "encyclopedia/behaviour.py", "encyclopedia/measurements.py", "apex/*.py",
)  # fmt: skip
CLAIMS: Final = "tests/encyclopedia/claims/*.py"
"""Beside the package where it is a checkout; an installed package has no tests."""
_DEFINED = re.compile(r"^(?:def|class) (\w+)|^(\w+)(?::[^=]*)? = ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file by its path in the repository, and the names that it defines at its top."""

    path: str
    text: str

    @property
    def page(self) -> str:
        return f"source/{self.path}.html"

    @property
    def names(self) -> list[str]:
        return [first or second for first, second in _DEFINED.findall(self.text)]

    def lines(self) -> Iterator[tuple[int, str, Markup]]:
        """Number, the name defined there (or nothing), and the line as HTML."""
        seen = set[str]()
        for number, (plain, shown) in enumerate(
            zip(self.text.split("\n"), highlight.python(self.text).split("\n"), strict=False), 1
        ):
            found = _DEFINED.match(plain)
            name = (found[1] or found[2]) if found else ""
            yield number, "" if name in seen else name, Markup(shown)
            seen.add(name)


@cache
def files() -> tuple[SourceFile, ...]:
    """Every file that has a page."""
    root = PACKAGE.parents[1]
    inside = [(f"src/nnatlas/{path.relative_to(PACKAGE)}", path) for one in SHOWN for path in sorted(PACKAGE.glob(one))]
    tests = (
        [(str(path.relative_to(root)), path) for path in sorted(root.glob(CLAIMS))]
        if PACKAGE.parent.name == "src"
        else []
    )
    return tuple(SourceFile(name, path.read_text(encoding="utf-8")) for name, path in inside + tests)


def by_folder() -> dict[str, list[SourceFile]]:
    """The files by the folder that they lie in."""
    found: dict[str, list[SourceFile]] = {}
    for file in files():
        found.setdefault(file.path.rpartition("/")[0], []).append(file)
    return found


def addresses() -> dict[str, str]:
    """The page of every file, and of every name in it (`path#name`)."""
    found = {}
    for file in files():
        found[file.path] = file.page
        found |= {f"{file.path}#{name}": f"{file.page}#{name}" for name in file.names}
    return found
