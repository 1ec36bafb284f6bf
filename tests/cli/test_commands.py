"""The commands, run as a user runs them: what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.fresh import HANGS, seconds_for
from typer.testing import CliRunner

import nnatlas
import nnatlas.families
from nnatlas.cli import build
from nnatlas.cli.version import OTHERS

APP = build()


def run(*words: str, code: int = 0, **more):
    """A command's result; stdout and stderr apart."""
    done = CliRunner().invoke(APP, words, **more)
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


def fail(*words: str) -> str:
    """The one line with which a command that the user got wrong ends."""
    done = run(*words, code=2)
    assert done.stdout == ""
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0]


# --- lens -----------------------------------------------------------------------------------------------------------


def test_a_lens_has_a_row_for_each_layer_and_a_column_for_each_token():
    lines = run("lens", "tiny:llama", "Hi").stdout.split("\n")
    assert lines[0].split() == ["layer", "<|begin|>", "H", "i"]
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[6].startswith("bars: ")
    chances = [float(part.split()[-1]) for part in lines[7].removeprefix("next  ").split(", ")]
    assert chances == sorted(chances, reverse=True) and len(chances) == 5 and 0 < sum(chances) < 1


def test_a_lens_as_json_has_what_the_library_computes():
    done = run("lens", "tiny:llama", "Hi", "--json", "--top", "2", "--target", "A", "--last", "1")
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert set(data) == {"model", "prompt", "note", "tokens", "layers"} and data["note"] == ""
    assert data["tokens"] == [{"position": 2, "id": 105, "text": "i"}]
    assert [layer["value"] for layer in data["layers"]] == [f"layers.{i}.layer_output" for i in range(4)]
    [cell] = data["layers"][-1]["positions"]
    assert set(cell) == {"position", "top", "entropy", "kl_to_final", "targets"}
    assert cell["kl_to_final"] == 0 and len(cell["top"]) == 2
    model = nnatlas.load("tiny:llama")
    with model.trace("Hi"):
        chances = model.logits[0, -1].softmax(-1)
    best = chances.topk(2)
    assert [one["id"] for one in cell["top"]] == best.indices.tolist()
    assert [one["probability"] for one in cell["top"]] == pytest.approx(best.values.tolist())
    [target] = cell["targets"]
    assert target["id"] == 65 and target["rank"] == int((chances > chances[65]).sum())


def test_top_lists_the_last_position_by_layer():
    out = run("lens", "tiny:llama", "Hi", "--top", "3", "--target", "A").stdout
    table = out[out.index("at the last position") :].split("\n")
    assert table[1].split() == ["layer", "1", "2", "3", "A"]
    assert all("rank" in line for line in table[2:6])


def test_hostile_tokens_come_out_as_text():
    out = run("lens", "tiny:llama", "<script>[bold red]\x1b[31m").stdout
    assert "\x1b" not in out and "\\x1b" in out
    heads = [word for line in out.split("\n") if line.startswith("layer") for word in line.split()[1:]]
    assert "".join(heads[1:19]) == "<script>[bold·red]"


def test_a_page_is_self_contained_and_escaped(tmp_path):
    page = tmp_path / "lens.html"
    assert run("lens", "tiny:llama", "<script>alert(1)</script>", "--html", str(page)).stdout == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert "alert(1)" not in text and "&lt;" in text and "http:" not in text and "https:" not in text


def test_a_prompt_from_stdin_and_as_a_chat():
    piped = run("lens", "tiny:llama", "-", "--json", input="Hi").stdout
    assert json.loads(piped)["prompt"] == "Hi"
    chat = json.loads(run("lens", "tiny:llama", "Hi", "--chat", "--json").stdout)
    assert "".join(token["text"] for token in chat["tokens"]) == "user:\nHi<|end|>assistant:\n"


@pytest.mark.real
def test_smollm2_says_paris_in_a_terminal_of_100_columns(smollm2_folder):
    done = subprocess.run(
        [sys.executable, "-m", "nnatlas.cli", "lens", "smollm2", "The Eiffel Tower is in the city of", "--top", "1"],
        capture_output=True, text=True, check=True, timeout=HANGS,
    )  # fmt: skip
    assert done.stderr == ""
    lines = done.stdout.split("\n")
    rows = {line.split()[0]: line for line in lines if line.strip().split(" ")[0].isdigit()}
    assert "·Paris" in rows["28"] and "·Paris 0.65" in rows["29"]
    assert lines[-2].startswith("next  ·Paris 0.65")


# --- the others -----------------------------------------------------------------------------------------------------


def test_show_lists_values_layouts_and_reasons():
    out = run("show", "tiny:cohere2").stdout
    assert "(attention_norm/mlp_norm/input_layernorm)" in out or "input_layernorm" in out
    assert "(layer_output) -> Residual [batch seq hidden_size]: " in out
    assert "(layer_mid): not available: a parallel block" in out
    part = run("show", "tiny:cohere2", "layers.0.mlp").stdout
    assert part.startswith("Cohere2MLP(") and "mlp_neurons" in part and "layer_output" not in part


def test_support_as_json():
    data = json.loads(run("support", "tiny:cohere2", "--json").stdout)
    assert data["family"] == "cohere2" and data["layers"] == 4
    mid, scores = data["values"]["block.layer_mid"], data["values"]["self_attn.attention_scores"]
    assert not mid["served"] and mid["read_at"] is None and "parallel" in mid["absent"]["all blocks"]
    assert scores["served"] and scores["axes"] == ["batch", "num_heads", "query", "key"] and not scores["absent"]


def test_support_of_a_folder_needs_no_weights(tmp_path):
    nnatlas.load("tiny:llama").config.save_pretrained(tmp_path)
    assert "attention_probabilities" in run("support", str(tmp_path)).stdout
    assert "cannot load" in fail("lens", str(tmp_path), "Hi")


def test_check_reports_and_its_exit_code_tells(monkeypatch):
    data = json.loads(run("check", "tiny:llama", "--law", "residual", "--law", "head", "--json").stdout)
    assert data["passed"] and set(data["laws"]) == {"residual", "head"}
    assert "every law holds" in run("check", "tiny:llama", "--law", "head").stdout
    from nnatlas.model import readout

    monkeypatch.setattr(readout, "through", lambda *_, real=readout.through: real(*_) * 1.01)
    assert "break" in run("check", "tiny:llama", "--law", "head", code=1).stdout


def test_find():
    out = run("find", "blocks.3.attn.hook_z").stdout
    assert "model.layers[i].self_attn.attention_head_outputs" in out and "TransformerLens" in out
    [found] = json.loads(run("find", "hook_resid_mid", "--json").stdout)
    assert found["value"] == "block.layer_mid" and found["typed"] == "model.layers[i].layer_mid"


def test_families():
    data = json.loads(run("families", "gpt2", "cohere2", "--json").stdout)
    assert [one["name"] for one in data] == ["gpt2", "cohere2"]
    assert data[1]["shape"] == "parallel_one_norm"
    assert "model_type" in run("families").stdout


def test_families_that_need_a_newer_transformers_say_so(monkeypatch):
    monkeypatch.setattr(nnatlas.families, "installed", lambda: "5.20.2")
    shown = run("families", "dory", "beam", "exaone").stdout
    assert "dory (needs" in shown and "beam (needs" not in shown
    (row,) = json.loads(run("families", "exaone", "--json").stdout)
    assert row["lacking"].keys() >= {"exaone"} and "llama" not in row["lacking"]
    assert "needs transformers 5.24; installed is 5.20.2" in fail("check", "--all", "dory")
    assert "Type: pip install 'transformers>=5.24'" in fail("support", "tiny:dory")
    assert "needs transformers 5.24" in fail("draft", "dory")


def test_version():
    found = json.loads(run("version", "--json").stdout)
    assert found["nnatlas"] == nnatlas.__version__ and set(found) == {"nnatlas", "python", *OTHERS}
    assert run("--version").stdout == run("version").stdout


@pytest.mark.real
def test_pull_prints_the_folder(smollm2_folder):
    assert run("pull", "smollm2").stdout.strip() == str(smollm2_folder)


# --- what a user can get wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, says",
    [
        (["lns"], "No such command 'lns'. Did you mean 'lens'?"),
        (["lens", "tiny:llama"], "Missing argument 'PROMPT'. For help: nnatlas lens --help"),
        (["lens", "tiny:llama", "x", "--jsn"], "No such option: --jsn"),
        (["lens", "tiny:llama", "x", "--top", "0"], "--top"),
        (["lens", "tiny:llama", "x", "--top", "many"], "--top"),
        (["lens", "tiny:llama", "x", "--target", "abc"], "'abc' is 3 tokens, not one"),
        (["lens", "tiny:llama", "x", "--value", "layers.*.nothing"], "no value is called 'layers.*.nothing'"),
        (
            ["lens", "tiny:llama", "x", "--html", "no/such/folder/x.html"],
            "cannot write 'no/such/folder/x.html': there is no folder",
        ),
        (["lens", "tiny:llama", "x", "--dtype", "float99"], "--dtype 'float99': models compute in float32, "),
        (["show", "tiny:nothing"], "no model type 'nothing'; nnatlas families lists them"),
        (["show", "tiny:llama", "layers.9"], "no part 'layers.9': block 9 of 4: they are numbered 0 to 3"),
        (["show", "tiny:llama", "layers.0.nope"], "there is no module 'nope'"),
        (["support", "./no-such-folder"], "there is no such folder, and it is no Hub id"),
        (["support", "smollm"], "the Hub cannot be reached; near: smollm2;"),
        (["support", "someone/model"], "the Hub cannot be reached; a folder"),
        (["pull", "nothing"], "no checkpoint to pull under the name 'nothing'; there is: smollm2"),
        (["find", "zzzzqq"], "no library we know calls a value 'zzzzqq'"),
        (["families", "lama"], "no family covers model_type 'lama'; near: llama"),
        (["check", "tiny:llama", "--law", "gravity"], "there is no law called 'gravity'; there are shape, "),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_2(words, says):
    assert says in fail(*words).replace("root ", "nnatlas ")


def test_a_damaged_folder_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "nothing-we-know"}')
    assert "cannot load" in fail("show", str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    assert "cannot load" in fail("show", str(tmp_path))


def test_a_name_cannot_write_to_the_terminal():
    assert "\x1b" not in fail("support", "no/such/\x1b[31mfolder\nx")


def test_the_traceback_is_there_for_the_asking(monkeypatch):
    monkeypatch.setenv("NNATLAS_TRACEBACK", "1")
    assert "Traceback" in run("find", "zzzzqq", code=2).stderr


def test_a_bug_is_not_dressed_up(monkeypatch):
    from nnatlas import kin

    monkeypatch.setattr(kin, "find", lambda name: 1 / 0)
    assert isinstance(CliRunner().invoke(APP, ["find", "x"]).exception, ZeroDivisionError)


# --- as a process ---------------------------------------------------------------------------------------------------


def command(*words: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nnatlas.cli", *words], capture_output=True, text=True, check=False, **more
    )


def test_help_comes_at_once_and_without_torch():
    help_ = "out = CliRunner().invoke(build(), ['--help']).stdout"
    loading = "from typer.testing import CliRunner; from nnatlas.cli import build"
    assert seconds_for(f"{loading}; {help_}; assert 'lens' in out") < 0.3
    assert "Commands:" in command("--help").stdout and "Commands:" in command().stdout


def test_exit_codes_of_the_process():
    wrong = command("find", "zzzzqq")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (2, "", 1)
    right = command("find", "hook_resid_mid", "--json", env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert right.returncode == 0 and json.loads(right.stdout)


def test_a_terminal_gets_colours_and_progress_and_a_pipe_gets_neither():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "nnatlas.cli", "lens", "tiny:llama", "Hi"]
    done = subprocess.Popen(
        words, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    assert done.wait(HANGS) == 0
    assert b"loading tiny:llama" in seen and b"\x1b[" in seen
    plain = run("lens", "tiny:llama", "Hi")
    assert plain.stderr == "" and "\x1b" not in plain.stdout
