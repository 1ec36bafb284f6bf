"""Asking pip: what the bar is told while it runs, and that no pip outlives us."""

from __future__ import annotations

import os

import pytest

from nnatlas.pull.wheel import _run_pip

SLOW_PIP = """
import os, pathlib, sys, tempfile, time
scratch = pathlib.Path(tempfile.mkdtemp())
pathlib.Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
seen = pathlib.Path(os.environ["SEEN_FILE"])
for size in (1000, 2000, 3000, 4000):
    with open(scratch / "part", "ab") as part:
        part.write(b"x" * 1000)
    while not seen.exists() or int(seen.read_text() or 0) < size:
        time.sleep(0.01)
dest = sys.argv[sys.argv.index("--dest") + 1]
(scratch / "part").rename(pathlib.Path(dest) / "a.whl")
"""


@pytest.fixture
def slow_pip(shop, tmp_path, monkeypatch):
    """A pip that goes on when it has been seen: after each 1000 bytes it waits until SEEN_FILE says so.

    Returns the arguments of `_run_pip` up to the callback.
    """
    module = tmp_path / "modules" / "pip"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "__main__.py").write_text(SLOW_PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    monkeypatch.setenv("SEEN_FILE", str(tmp_path / "seen"))
    dest, scratch = tmp_path / "dest", tmp_path / "scratch"
    dest.mkdir()
    scratch.mkdir()
    return shop.checkpoint, dest, scratch, tmp_path / "log"


def test_the_bar_follows_the_file_that_grows(slow_pip, tmp_path):
    told: list[int] = []

    def done(amount: int) -> None:
        told.append(amount)
        (tmp_path / "seen").write_text(str(amount))

    assert _run_pip(*slow_pip, done) == 0
    assert sorted({*told} - {0}) == [1000, 2000, 3000, 4000]
    assert told[-1] == 4000


def test_no_pip_is_left_running_after_an_interrupt(slow_pip, tmp_path):
    written = tmp_path / "pid"

    def interrupt(_amount: int) -> None:
        if written.exists() and written.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # and this comes back at all, though that pip would wait for ever
        _run_pip(*slow_pip, interrupt)
    pid = int(written.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
