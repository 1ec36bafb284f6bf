"""Every option with values that nobody means: one line that says what to type and exit code 2, never silence."""

from __future__ import annotations

import json
import shlex

import pytest
from tests.cli.test_commands import fail, run

STEER = "steer tiny:llama Hi --positive a --negative b --tokens 3"
PATCH = "patch tiny:llama --clean 'a cat' --corrupted 'a dog'"
WRONG = {
    # what any command that loads a model may be given
    "lens tiny:lama Hi": "no model type 'lama'; near: tiny:llama",
    "show tiny:lama": "no model type 'lama'; near: tiny:llama",
    "lens tiny: Hi": "no model type ''",
    "lens '' Hi": "MODEL is empty",
    "lens /nowhere Hi": "there is no such folder",
    "support smollm3": "near: smollm2",
    "lens tiny:llama Hi --dtype int8": "models compute in float32",
    "lens tiny:llama Hi --dtype ''": "models compute in float32",
    "lens tiny:llama Hi --device tpu": "--device 'tpu': Expected one of cpu",
    "lens tiny:llama Hi --device meta": "no numbers to compute with",
    "lens tiny:llama Hi --attn bogus": '"bogus"` is not supported',
    "lens tiny:llama Hi --revision main": "has no revisions",
    # files
    "lens tiny:llama Hi --html /nowhere/x.html": "there is no folder '/nowhere'",
    "lens tiny:llama Hi --html ''": "name a file, not a folder",
    "patterns tiny:llama Hi --png /": "name a file, not a folder",
    f"{STEER} --save /nowhere/a": "there is no folder",
    "page tiny:llama --out ''": "name a file, not a folder",
    "check --all llama --results /nowhere/r.json": "there is no folder",
    # lens
    "lens tiny:llama Hi --top 999999": "between 1 and the vocabulary's 320",
    "lens tiny:llama Hi --last 0": "greater than or equal to 1",
    "lens tiny:llama Hi --target ''": "'' is 0 tokens, not one: []",
    "lens tiny:llama Hi --value ''": "no value is called ''",
    "lens tiny:llama Hi --value layers.99.layer_output": "near: layers.3.layer_output",
    "lens tiny:llama Hi --value logits": "is not a residual stream",
    "lens tiny:llama Hi --tuned /nowhere": "no tuned lens in",
    # patterns
    "patterns tiny:llama --layer 1": "give a PROMPT",
    "patterns tiny:llama --average": "give a PROMPT",
    "patterns tiny:llama Hi --layer -9": "layer -9 of 4",
    # attribute
    "attribute tiny:llama Hi --position 77": "position 77 of row 0, which has 3 tokens",
    "attribute tiny:llama Hi --by ''": "one of layer, head, neuron",
    "attribute tiny:llama Hi --top -1": "greater than or equal to 0",
    "attribute tiny:llama Hi --target A --against A": "target and against are both 'A'",
    # steer
    f"{STEER} --scale nan": "--scale nan: give a finite number",
    f"{STEER} --scale inf": "--scale inf: give a finite number",
    f"{STEER} --position 77": "those steered on are 0 to 4",
    f"{STEER} --position 5": "those steered on are 0 to 4",
    f"{STEER} --position -4": "those steered on are 0 to 4",
    f"{STEER} --position 1 --on new": "those steered on are 3 to 4",
    f"{STEER} --position -2 --on new": "those steered on are 3 to 4",
    f"{STEER} --tokens 1 --on new": "nothing would be steered",
    f"{STEER} --tokens 100000": "this model reads 256 at most",
    f"{STEER} --seed 5": "give a --temperature",
    f"{STEER} --seed -1": "greater than or equal to 0",
    f"{STEER} --temperature inf": "it is above 0",
    f"{STEER} --method ''": "there are mean, pca",
    "steer tiny:llama Hi --positive a --negative a": "no direction between them",
    "steer tiny:llama Hi --vector /nowhere/a --method pca": "leave one out",
    "steer tiny:llama Hi --vector /nowhere/a": "there is no file",
    # patch
    f"{PATCH} --compare": "give --estimate STEPS as well",
    f"{PATCH} --plain --estimate 2": "leave one out, or add --compare",
    f"{PATCH} --estimate 0": "greater than or equal to 1",
    f"{PATCH} --over position": "name layer, and position or head",
    f"{PATCH} --value layer_outptu": "there is layer_output",
    f"{PATCH} --answer A --wrong A": "answer and wrong answer are both 'A'",
    f"{PATCH} --answer A --answer B": "2 answers for 1 pairs",
    "patch tiny:llama --clean '' --corrupted ''": "the same tokens",
    # the others
    "show tiny:llama layers.99": "block 99 of 4",
    "show tiny:llama layers.x": "there is no module 'x'",
    "show tiny:llama layers.0.self_atn": "near: self_attn",
    "show tiny:llama ..": "no part '..'",
    "families --with moe --without moe": "no type has all of 'moe' and none of 'moe'",
    "families --traits llama": "leave TYPE, --with and --without out",
    "find ''": "no library we know",
    "pull ''": "there is: smollm2",
    "page tiny:llama --text ''": "--text is empty",
    "check": "takes one MODEL, got 0",
    "check tiny:llama --law nope": "there is no law called 'nope'",
    "check tiny:llama --processes 9": "--processes goes with --all",
    "check tiny:llama --seconds 5": "--seconds goes with --all",
    "check --all nope": "no family covers model_type 'nope'",
}


@pytest.mark.parametrize("words", WRONG)
def test_it_is_one_line_that_says_what_is_wrong(words):
    assert WRONG[words] in fail(*shlex.split(words))


def test_a_number_larger_than_there_is_of_what_is_listed_lists_all():
    few, many = (run("lens", "tiny:llama", "Hi", "--last", last).stdout for last in ("3", "99999"))
    assert few == many
    out = run("attribute", "tiny:llama", "Hi", "--by", "head", "--top", "9999").stdout
    assert out.count("; layer ") == 4 * 4 - 1  # every head of every layer, after the first


@pytest.mark.parametrize(
    "words",
    [
        "lens tiny:llama Hi",
        "patterns tiny:llama Hi",
        "patterns tiny:llama",
        "attribute tiny:llama Hi",
        f"{PATCH} --metric kl",
    ],
)
def test_json_goes_to_stdout_and_pages_and_pictures_to_their_files_in_one_call(words, tmp_path):
    pytest.importorskip("matplotlib")
    page, picture = tmp_path / "a.html", tmp_path / "a.png"
    done = run(*shlex.split(words), "--json", "--html", str(page), "--png", str(picture))
    assert json.loads(done.stdout)["model"] == "tiny:llama"
    assert 'role="grid"' in page.read_text(encoding="utf-8") and picture.read_bytes()[:4] == b"\x89PNG"
    both = run(*shlex.split(words), "--html", str(page), "--png", str(picture))
    assert both.stdout == f"{page}\n{picture}\n"


def test_steered_texts_as_json_and_as_a_page(tmp_path):
    page = tmp_path / "a.html"
    data = json.loads(run(*shlex.split(STEER), "--json", "--html", str(page)).stdout)
    assert data["continuations"][1]["label"] == "scale 1" and "scale 1" in page.read_text(encoding="utf-8")


def test_options_are_checked_before_a_model_is_loaded(monkeypatch):
    from nnatlas.cli import models

    monkeypatch.setattr(models, "load", lambda *_, **__: pytest.fail("loaded in vain"))
    for words in (
        f"{STEER} --scale nan",
        f"{PATCH} --compare",
        "patterns tiny:llama --average",
        "lens x Hi --html /no/x",
    ):
        fail(*shlex.split(words))
