"""`nnatlas steer`, run as a user runs it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import nnatlas
from nnatlas.cli import build
from nnatlas.edits import SteeringVector, steer, steering_vector

APP = build()
CONTRAST = ("--positive", "good", "--positive", "so nice", "--negative", "bad", "--negative", "so ugly")


def run(*words: str, code: int = 0):
    done = CliRunner().invoke(APP, ["steer", *words])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def test_as_json_it_is_what_the_library_does(tmp_path):
    path = tmp_path / "vector.safetensors"
    words = ("tiny:llama", "Hi there", *CONTRAST, "--layer", "1", "--layer", "-1", "--scale", "6", "--tokens", "4")
    done = run(*words, "--json", "--save", str(path))
    data = json.loads(done.stdout)
    assert done.stderr == "" and data["prompt"] == "Hi there"
    plain, steered = data["continuations"]
    assert (plain["label"], steered["label"]) == ("as it is", "scale 6")
    model = nnatlas.load("tiny:llama")
    vector = steering_vector(model, ["good", "so nice"], ["bad", "so ugly"], layers=[1, -1])
    assert data["vector"]["norms"] == pytest.approx(
        {str(at): float(one.norm()) for at, one in vector.directions.items()}
    )
    for row, scale in ((plain, 0), (steered, 6)):
        with steer(model, vector, scale=scale), model.generate("Hi there", max_new_tokens=4, do_sample=False) as out:
            pass
        assert row["ids"] == out.output[0, -len(row["ids"]) :].tolist() and row["text"] == out.text
    assert SteeringVector.load(path)[1].tolist() == pytest.approx(vector[1].tolist())
    again = json.loads(
        run("tiny:llama", "Hi there", "--vector", str(path), "--scale", "6", "--tokens", "4", "--json").stdout
    )
    assert again["continuations"] == data["continuations"]


def test_several_scales_stand_side_by_side():
    out = run("tiny:llama", "Hi", *CONTRAST, "--scale", "4", "--scale", "-4", "--tokens", "3").stdout
    heads = next(line for line in out.split("\n") if "as it is" in line)
    assert heads.index("as it is") < heads.index("scale 4") < heads.index("scale -4")


def test_a_page_is_self_contained_and_escaped(tmp_path):
    page = tmp_path / "steer.html"
    done = run("tiny:llama", "<script>alert(1)</script>", *CONTRAST, "--tokens", "3", "--html", str(page))
    assert done.stdout == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text and "scale 1" in text


@pytest.mark.parametrize(
    "words, said",
    [
        (("--positive", "a"), "needs a contrast"),
        ((*CONTRAST, "--layer", "9"), "layer 9 of 4"),
        ((*CONTRAST, "--method", "best"), "there are mean, pca"),
        ((*CONTRAST, "--on", "end"), "on='end'"),
        (("--vector", "none.safetensors"), "there is no file"),
        ((*CONTRAST, "--vector", "none.safetensors"), "takes the place of"),
        ((*CONTRAST, "--html", "nowhere/at/all.html"), "cannot write"),
        ((*CONTRAST, "--temperature", "-1"), "--temperature -1: it is above 0"),
        ((*CONTRAST, "--temperature", "nan"), "it is above 0"),
    ],
)
def test_what_the_user_gets_wrong_is_one_line(words, said):
    done = run("tiny:llama", "Hi", "--tokens", "2", *words, code=2)
    assert done.stdout == "" and done.stderr.startswith("error: ") and said in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1
