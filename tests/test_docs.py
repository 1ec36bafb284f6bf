"""README, tutorial and guides run: every Python block of a page, from top to bottom, in one namespace."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line number and text of each Python block."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in BLOCK.finditer(text)]


RUN = [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, smollm2_folder: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for line, code in blocks(page):
        for statement in ast.parse("\n" * (line - 1) + code).body:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(ast.Module([statement], []), str(page), "exec"), names)  # the page is the test
            said = code.splitlines()[(statement.end_lineno or 0) - line].partition("  # ")[2]
            assert unsaid(said, printed.getvalue()) == [], f"{page.name}:{statement.lineno} prints {printed.getvalue()}"


def unsaid(comment: str, printed: str) -> list[str]:
    """The decimals in the comment beside a statement that it does not print, to the digits given."""
    found = [float(number) for number in re.findall(r"-?\d+\.\d+", printed)]
    return [
        number
        for number in re.findall(r"(?<![\w.])-?\d+\.\d+", comment)
        if printed and not any(abs(one - float(number)) <= 0.51 * 10 ** -len(number.partition(".")[2]) for one in found)
    ]


def test_a_number_beside_a_statement_is_the_one_it_prints() -> None:
    assert unsaid("4.9, then 11.1: far more", "4.87 11.12") == []
    assert unsaid("4.9, 11.3", "4.87 11.12") == ["11.3"]


def test_links_between_pages_lead_somewhere() -> None:
    dead = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert dead == []


# these pages are full of modules' and other libraries' own names, most of which only sound like values
SPEAKS_OF_VALUES = [page for page in PAGES if page.name not in ("families.md", "coming-from.md", "support-matrix.md")]


@pytest.mark.parametrize("page", SPEAKS_OF_VALUES, ids=lambda page: page.name)
def test_values_named_in_code_exist(page: Path) -> None:
    """`attention_…`, `mlp_…`, `layer_…` words in a page are values of the vocabulary, or roles."""
    from nnatlas import readouts, vision
    from nnatlas.families._row import ROLES
    from nnatlas.values import RARE, VALUES

    known = {value.name for value in (VALUES | RARE).values()} | set(ROLES) | {"attention_mask", "attention_layernorm"}
    known |= {*readouts.__all__, *vision.__all__}
    words = set(re.findall(r"\b(?:attention|mlp|layer)_[a-z_]+\b", page.read_text(encoding="utf-8")))
    assert {
        word for word in words if word not in known and not word.startswith(("layer_types", "attention_type"))
    } == set()
