"""Asking pip: what the bar is told while it runs, and that no pip outlives us."""

from __future__ import annotations

import os
import time

import pytest

from nnatlas.pull.wheel import _run_pip

SLOW_PIP = """
import os, pathlib, sys, tempfile, time
scratch = pathlib.Path(tempfile.mkdtemp())
pathlib.Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
for i in range(4):
    with open(scratch / "part", "ab") as part:
        part.write(b"x" * 1000)
    time.sleep(0.3)
dest = sys.argv[sys.argv.index("--dest") + 1]
(scratch / "part").rename(pathlib.Path(dest) / "a.whl")
"""


@pytest.fixture
def slow_pip(shop, tmp_path, monkeypatch):
    """A pip that takes its time; returns the arguments of `_run_pip` up to the callback."""
    module = tmp_path / "modules" / "pip"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "__main__.py").write_text(SLOW_PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    dest, scratch = tmp_path / "dest", tmp_path / "scratch"
    dest.mkdir()
    scratch.mkdir()
    return shop.checkpoint, dest, scratch, tmp_path / "log"


def test_the_bar_follows_the_file_that_grows(slow_pip):
    told: list[int] = []
    assert _run_pip(*slow_pip, told.append) == 0
    assert told == sorted(told)
    assert len({count // 1000 for count in told} & {1, 2, 3, 4}) >= 3
    assert told[-1] == 4000


def test_no_pip_is_left_running_after_an_interrupt(slow_pip, tmp_path):
    written = tmp_path / "pid"

    def interrupt(_amount: int) -> None:
        if written.exists() and written.read_text():
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _run_pip(*slow_pip, interrupt)
    assert time.monotonic() - start < 1.2, "it waited for pip to end by itself"
    pid = int(written.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
