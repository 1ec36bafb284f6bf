"""`nnatlas patch`: a table, JSON with the library's own numbers, a page; one line for what a user can get wrong."""

from __future__ import annotations

import json

import pytest
from tests.cli.test_commands import fail, run

import nnatlas
from nnatlas.patching import LogitDifference, Probability, activation_patching, attribution_patching

PAIR = ["--clean", "a cat", "--corrupted", "a dog"]
ANSWERS = ["--answer", "A", "--wrong", "B"]


@pytest.fixture(scope="module")
def model():
    return nnatlas.load("tiny:llama")


def test_a_table():
    lines = run("patch", "tiny:llama", *PAIR, *ANSWERS).stdout.split("\n")
    assert lines[0] == "activation patching: layer_output, denoise (0 as corrupted, 1 as clean)"
    assert [line.split()[0] for line in lines[2:6]] == ["0", "1", "2", "3"]
    assert any(line.startswith("largest  layer ") and "position" in line for line in lines)
    assert any(line.startswith("metric   logit of 'A' less logit of 'B': clean ") for line in lines)


def test_json_has_what_the_library_computes(model):
    data = json.loads(run("patch", "tiny:llama", *PAIR, *ANSWERS, "--json").stdout)
    found = activation_patching(model, "a cat", "a dog", metric=LogitDifference("A", "B"))
    assert [axis["name"] for axis in data["axes"]] == ["layer", "position"]
    assert data["axes"][1]["labels"][-1] == "t|g" and data["note"] == "" and data["agreement"] is None
    [pair] = data["pairs"]
    assert pair["values"][2] == pytest.approx(found.values[0, 2].tolist())
    assert pair["normalised"][1] == pytest.approx(found.normalised[0, 1].tolist())
    assert pair["clean"] == pytest.approx(float(found.clean))


def test_options_reach_the_library(model):
    words = ["--metric", "probability", "--answer", "A", "--value", "attention_premix", "--over", "layer x head"]
    data = json.loads(run("patch", "tiny:llama", *PAIR, *words, "--noise", "--plain", "--json").stdout)
    found = activation_patching(
        model, "a cat", "a dog", "attention_premix", "layer x head", Probability("A"), direction="noise"
    )
    assert data["pairs"][0]["values"][3] == pytest.approx(found.values[0, 3].tolist(), abs=1e-6)
    assert data["way"].startswith("whole forwards")


def test_an_estimate_and_its_agreement(model):
    words = ["patch", "tiny:llama", *PAIR, *ANSWERS, "--estimate", "3"]
    data = json.loads(run(*words, "--compare", "--json").stdout)
    both = (patching(model, "a cat", "a dog", metric=LogitDifference("A", "B"), **more) for patching, more in (
        (attribution_patching, {"steps": 3}), (activation_patching, {})
    ))  # fmt: skip
    estimate, exact = both
    assert data["pairs"][0]["values"][0] == pytest.approx(estimate.values[0, 0].tolist(), abs=1e-5)
    assert data["agreement"]["correlation"] == pytest.approx(estimate.agreement(exact).correlation, abs=1e-5)
    assert "exact    correlation" in run(*words, "--compare").stdout
    assert "exact    " not in run(*words).stdout


def test_several_pairs():
    words = ["--clean", "a cat", "--corrupted", "a dog", "--clean", "my cat"[1:], "--corrupted", "y cow"]
    data = json.loads(
        run("patch", "tiny:llama", *words, "--answer", "A", "--answer", "C", "--wrong", "B", "--json").stdout
    )
    assert [pair["metric"] for pair in data["pairs"]] == [
        "logit of 'A' less logit of 'B'",
        "logit of 'C' less logit of 'B'",
    ]


def test_files(tmp_path):
    page, picture = tmp_path / "p.html", tmp_path / "p.png"
    assert run("patch", "tiny:llama", *PAIR, *ANSWERS, "--html", str(page)).stdout.strip() == str(page)
    assert "activation patching" in page.read_text(encoding="utf-8")
    pytest.importorskip("matplotlib")
    assert run("patch", "tiny:llama", *PAIR, *ANSWERS, "--png", str(picture)).stdout.strip() == str(picture)
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_what_a_user_can_get_wrong():
    assert "clean is 6 tokens" in fail("patch", "tiny:llama", "--clean", "a cat", "--corrupted", "a horse")
    assert "Missing option" in fail("patch", "tiny:llama", "--clean", "a cat")
    assert "no metric 'logits'" in fail("patch", "tiny:llama", *PAIR, "--metric", "logits")
    assert "does not take --answer and --wrong" in fail("patch", "tiny:llama", *PAIR, *ANSWERS, "--metric", "kl")
    assert "'Paris' is 5 tokens" in fail("patch", "tiny:llama", *PAIR, "--answer", "Paris", "--wrong", "B")
    assert "is no value of a block" in fail("patch", "tiny:llama", *PAIR, *ANSWERS, "--value", "logits")
