"""`nnatlas check --all` and `nnatlas families --with`: what is run, kept, printed, and the exit code."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from nnatlas import families
from nnatlas.check import Sweep
from nnatlas.cli import build, check_all
from nnatlas.cli.family_pages import families_page, matrix_page
from nnatlas.traits import kept
from nnatlas.traits.measured import Kept, from_text, read, to_text

APP = build()


def run(*words: str, code: int = 0):
    done = CliRunner().invoke(APP, words)
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


@pytest.fixture
def measured(monkeypatch) -> list:
    """The sweep replaced by the kept measurements of the types it is asked for; what it was asked."""
    asked = []

    def sweep(types, *, processes, seconds_per_type, progress):
        asked.append((list(types), processes, seconds_per_type))
        for name in types:
            progress(name, {"error": "broke"} if name == "bloom" else {})
        return Sweep(dict.fromkeys(types), 0.0, {name: float(at) for at, name in enumerate(types, 1)})

    def kept_of(swept):
        found = {name: kept().types[name] for name in swept.types}
        wrong = {
            name: replace(one, failures=("shape: logits at model: wrong",))
            for name, one in found.items()
            if name == "bloom"
        }
        return Kept({"torch": "0"}, {**found, **wrong})

    monkeypatch.setattr("nnatlas.check.sweep", sweep)
    monkeypatch.setattr(check_all, "kept_of", kept_of)
    return asked


def test_types_are_run_shown_and_summed(measured):
    done = run("check", "--all", "llama", "gpt2", "--processes", "3")
    assert measured == [(["llama", "gpt2"], 3, 120.0)]
    assert "[2/2] gpt2: every law holds" in done.stderr
    assert "3.0 s of computing; the slowest types: gpt2 2.0, llama 1.0" in done.stderr
    rows = [line for line in done.stdout.splitlines() if "gpt2" in line]
    one = kept().types["gpt2"]
    assert "11 of 11" in rows[0] and f"{len(one.served)}" in rows[0] and f"{len(one.absent)}" in rows[0]
    sums = done.stdout[done.stdout.index("in all") :]
    assert "types that pass every law" in sums and "shape 2" in sums


def test_a_broken_law_ends_in_exit_code_1_and_is_named(measured):
    done = run("check", "--all", "bloom", "gpt2", code=1)
    assert "[1/2] bloom: broke" in done.stderr
    assert "shape: logits at model: wrong" in done.stdout


def test_measurements_are_written_over_those_of_the_same_types(measured, tmp_path):
    path = tmp_path / "kept.json"
    run("check", "--all", "llama", "gpt2", "--results", str(path))
    run("check", "--all", "bloom", "--results", str(path), code=1)
    assert list(read(path).types) == ["bloom", "gpt2", "llama"]
    assert read(path).types["gpt2"] == kept().types["gpt2"]


def test_types_that_transformers_does_not_have_yet_are_listed_and_not_run(measured, monkeypatch):
    monkeypatch.setattr(families, "installed", lambda: "5.23.0")
    done = run("check", "--all", "--processes", "1", code=1)  # the fixture's bloom
    assert {"dory", "exaone"} & set(measured[0][0]) == set() and {"lfm3", "llama"} <= set(measured[0][0])
    listed = done.stdout[done.stdout.index("not run: the installed transformers is older") :]
    assert "dory" in listed and "lfm3 " not in listed[: listed.index("in all")]
    measured.clear()
    assert "'dory' needs transformers" in run("check", "--all", "--stale", "dory", "llama", code=2).stderr
    assert measured == []


def test_only_stale_types_are_run(measured, tmp_path):
    path = tmp_path / "kept.json"
    old = Kept({}, {name: kept().types[name] for name in ("llama", "gpt2")})
    path.write_text(to_text(replace(old, types={**old.types, "gpt2": replace(old.types["gpt2"], row="00000000")})))
    run("check", "--all", "--stale", "llama", "gpt2", "--results", str(path))
    assert measured == [(["gpt2"], 2, 120.0)]
    assert "nothing is stale" in run("check", "--all", "--stale", "llama", "gpt2", "--results", str(path)).stdout


def test_json_is_the_measurements_and_nothing_else(measured):
    done = run("check", "--all", "llama", "--json")
    assert json.loads(done.stdout)["types"].keys() == {"llama"}
    assert from_text(done.stdout).types["llama"] == kept().types["llama"]


@pytest.mark.parametrize(
    "words, says",
    [
        (["check"], "check takes one MODEL, got 0; for many types: nnatlas check --all TYPE TYPE"),
        (["check", "--all", "lama"], "no family covers model_type 'lama'; near: llama"),
        (["check", "--all", "--law", "head"], "--all takes no --law: it runs every law on tiny models"),
        (["check", "--all", "--attn", "eager"], "--all takes no --attn"),
        (["check", "tiny:llama", "--stale"], "--stale goes with --all"),
        (["families", "--with", "moee"], "there is no trait 'moee'; near: moe"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_a_user_can_get_wrong(words, says):
    assert says in run(*words, code=2).stderr


@pytest.mark.slow
def test_a_type_is_measured_for_real(tmp_path):
    path = tmp_path / "kept.json"
    run("check", "--all", "falcon", "--processes", "1", "--seconds", "300", "--results", str(path))
    assert read(path).types["falcon"] == kept().types["falcon"]


# --- families -------------------------------------------------------------------------------------------------------


def test_families_are_searched_by_traits():
    found = json.loads(
        run("families", "--with", "parallel", "--without", "grouped-query attention,images", "--json").stdout
    )
    types = {name for one in found for name in one["covers"]}
    assert "falcon" in types and "cohere2" not in types
    assert all("parallel" in own and "gqa" not in own for one in found for own in one["traits"].values())
    shown = run("families", "--with", "moe", "--without", "rotary").stdout
    assert "jamba" in shown and "mixtral" not in shown


def test_traits_are_listed_with_their_counts():
    rows = {one["key"]: one for one in json.loads(run("families", "--traits", "--json").stdout)}
    assert rows["moe"]["name"] == "mixture of experts" and rows["moe"]["types"] > 50
    assert "grouped-query attention" in run("families", "--traits").stdout


# --- pages ----------------------------------------------------------------------------------------------------------


def test_the_page_of_families_shows_only_what_differs():
    page = families_page()
    lines = {line.split("**")[1]: line for line in page.splitlines() if line.startswith("| **")}
    assert lines["llama"].endswith("| nothing |")
    assert "mlp_norm = `feedforward_layernorm`" in lines["apertus"] and "o_proj" not in lines["apertus"]
    assert len(page) < 250_000


def test_the_matrix_has_every_type_at_every_host():
    page = matrix_page()
    block = page[page.index("## one block") : page.index("## a block's attention")]
    assert [name for name, one in kept().types.items() if not one.error and name not in block] == []
    assert len(page) < 250_000
