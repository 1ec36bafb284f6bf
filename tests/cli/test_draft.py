"""`nnatlas draft`: the start of a family file, which is a row that binds."""

from __future__ import annotations

import types

import pytest
from typer.testing import CliRunner

import nnatlas
from nnatlas.cli import build
from nnatlas.families._row import Family

RUN = CliRunner()


def drafted(model_type: str) -> tuple[str, Family]:
    """The text that the command prints, and the row that it defines."""
    result = RUN.invoke(build(), ["draft", model_type])
    assert result.exit_code == 0, result.output
    text = result.stdout
    module = types.ModuleType(f"nnatlas.families.{model_type}")
    exec(compile(text, f"{model_type}.py", "exec"), module.__dict__)  # the text is the thing under test
    return text, module.FAMILY


def test_the_plainest_draft_is_one_line_of_facts() -> None:
    text, row = drafted("llama")
    assert "FAMILY = LLAMA.but(\n)" in text
    assert row.covers == ("llama",)
    assert "Broken" not in text


@pytest.mark.parametrize("model_type", ["gemma2", "granite", "cohere"])
def test_a_draft_is_a_row_that_obeys_every_law(model_type: str) -> None:
    text, row = drafted(model_type)
    assert "Broken" not in text
    own = nnatlas.load(f"tiny:{model_type}")
    report = nnatlas.check(nnatlas.load(own._module, family=row.remade(name="drafted")))
    assert report.passed, report.failures[:3]


def test_an_unknown_name_is_one_line_of_error() -> None:
    result = RUN.invoke(build(), ["draft", "no-such-type"])
    assert result.exit_code != 0
    assert "no-such-type" in result.output or "no-such-type" in str(result.exception)
