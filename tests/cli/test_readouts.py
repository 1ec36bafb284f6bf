"""`nnatlas patterns` and `nnatlas attribute`: tables, JSON with the library's own numbers, pages."""

from __future__ import annotations

import json

import pytest
from tests.cli.test_commands import fail, run

import nnatlas
from nnatlas.readouts import attention_patterns, head_scores, logit_attribution, train_tuned_lens


def test_an_attribution_as_json_has_what_the_library_computes():
    words = ["attribute", "tiny:llama", "Hi", "--target", "A", "--against", "B", "--top", "2", "--json"]
    done = run(*words)
    assert done.stderr == ""
    data = json.loads(done.stdout)
    found = logit_attribution(nnatlas.load("tiny:llama"), "Hi", "A", "B")
    assert data["of"] == "logit of 'A' less that of 'B'" and data["by"] == "layer" and data["missing"] == {}
    assert data["total"] == pytest.approx(float(found.total[0])) == pytest.approx(data["sum"], rel=1e-3)
    shares = [layer["shares"] for layer in data["layers"]]
    assert [list(one) for one in shares] == [["attention", "mlp"]] * 4
    assert shares[2]["mlp"] == pytest.approx(float(found.values[0, 2, 1]))
    assert sum(sum(one.values()) for one in shares) + sum(data["rest"].values()) == pytest.approx(
        data["total"], rel=1e-3
    )
    assert [abs(one["share"]) for one in data["largest"]] == sorted(
        (abs(one["share"]) for one in data["largest"]), reverse=True
    )


def test_an_attribution_in_a_terminal():
    lines = run("attribute", "tiny:llama", "Hi", "--by", "head").stdout.split("\n")
    assert lines[0].startswith("logit of ") and lines[1].split() == ["layer", "0", "1", "2", "3"]
    assert any(line.startswith("largest  layer ") and " head " in line for line in lines)
    neurons = json.loads(run("attribute", "tiny:llama", "Hi", "--by", "neuron", "--json").stdout)
    assert neurons["layers"] == [] and len(neurons["largest"]) == 5


def test_patterns_as_json_are_the_librarys():
    data = json.loads(run("patterns", "tiny:llama", "Hi", "--layer", "2", "--layer", "-1", "--json").stdout)
    assert data["tokens"] == ["<|begin|>", "H", "i"] and [one["layer"] for one in data["layers"]] == [2, 3]
    found = attention_patterns(nnatlas.load("tiny:llama"), "Hi", 2)[2]
    assert data["layers"][0]["heads"][1][2] == pytest.approx(found[0, 1, 2].tolist())
    averaged = json.loads(run("patterns", "tiny:llama", "Hi", "--layer", "2", "--average", "--json").stdout)
    assert averaged["layers"][0]["heads"][0][2] == pytest.approx(found[0].mean(0)[2].tolist())


def test_patterns_in_a_terminal():
    lines = run("patterns", "tiny:llama", "Hi", "--layer", "1").stdout.split("\n")
    assert lines[0] == "attention patterns (attention)" and "head 1.0" in lines
    assert lines[2].split() == ["query", "<|begin|>", "H", "i"]


def test_without_a_prompt_heads_are_scored():
    data = json.loads(run("patterns", "tiny:llama", "--json").stdout)
    found = head_scores(nnatlas.load("tiny:llama"))
    assert data["scores"]["induction"][1] == pytest.approx(found["induction"][1].tolist())
    assert "score induction" in run("patterns", "tiny:llama").stdout


def test_a_lens_can_be_a_tuned_one(tmp_path):
    model = nnatlas.load("tiny:llama")
    tuned = train_tuned_lens(model, ["abc"], steps=2, learning_rate=0.1)
    tuned.save(tmp_path)
    data = json.loads(run("lens", "tiny:llama", "Hi", "--tuned", str(tmp_path), "--json").stdout)
    assert [layer["value"] for layer in data["layers"]] == [
        *(f"layers.{i}.layer_input" for i in range(4)),
        "layers.3.layer_output",
    ]
    assert data["layers"][1]["positions"][-1]["kl_to_final"] == pytest.approx(
        float(tuned("Hi").kl_to_final[1, 0, -1]), rel=1e-3
    )
    assert "leave --value out" in fail(
        "lens", "tiny:llama", "Hi", "--tuned", str(tmp_path), "--value", "layers.*.layer_mid"
    )


def test_pages(tmp_path):
    for words in (["attribute", "tiny:llama", "Hi"], ["patterns", "tiny:llama", "Hi"], ["patterns", "tiny:llama"]):
        page = tmp_path / "page.html"
        assert run(*words, "--html", str(page)).stdout == f"{page}\n"
        assert 'role="grid"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words, says",
    [
        (["attribute", "tiny:llama", "x", "--target", "abc"], "'abc' is 3 tokens, not one"),
        (["attribute", "tiny:llama", "x", "--by", "mlp"], "by 'mlp': it is one of layer, head, neuron"),
        (["attribute", "tiny:mixtral", "x", "--by", "neuron"], "each expert has its own neurons"),
        (["patterns", "tiny:llama", "x", "--layer", "9"], "layer 9 of 4: they are numbered 0 to 3"),
        (["patterns", "tiny:mamba", "x"], "mixes tokens by a recurrence alone"),
    ],
)
def test_a_mistake_is_one_line(words, says):
    assert says in fail(*words)
