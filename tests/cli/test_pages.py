"""The generated pages are current, and nothing on the command line goes unexplained."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from nnatlas.cli import COMMANDS, build
from nnatlas.cli.pages import PAGES, commands, write

DOCS = Path(__file__).parents[2] / "docs"
EVERY = list(commands(typer.main.get_command(build())))


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "stale: run `make docs`"


@pytest.mark.parametrize("path, command", EVERY, ids=[path for path, _ in EVERY])
def test_every_command_and_option_is_explained(path, command):
    assert command.help and len(command.help.split("\n")[0]) <= 110
    unexplained = [parameter.name for parameter in command.params if not getattr(parameter, "help", None)]
    assert unexplained == []


def test_every_command_has_its_heading():
    text = (DOCS / "help.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"## nnatlas {name}\n" not in text] == []
    assert "| `--top K` |" in text and "nnatlas lens [OPTIONS] MODEL PROMPT" in text


def test_writing_twice_changes_nothing(tmp_path):
    assert {path.name for path in write(tmp_path)} == set(PAGES)
    assert write(tmp_path) == []
    (tmp_path / "help.md").write_text("old")
    assert [path.name for path in write(tmp_path)] == ["help.md"]
