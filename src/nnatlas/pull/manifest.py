"""The seal on a cached folder: what files it has, their sizes and hashes, and what they were made from.

It is written last, so a folder without one was interrupted.  Checking is cheap, in the way git's index is: a file whose
size and modification time are those of the seal is taken as unchanged, any other is hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

MANIFEST = "manifest.json"


def sha256(path: Path) -> str:
    """The SHA-256 of a file as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, origin: Mapping[str, object]) -> None:
    """Record every file of `folder` in its manifest, after they have reached the disk."""
    files = {path.name: _record(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
    _write(folder, {"origin": dict(origin), "files": files})


def fault(folder: Path, origin: Mapping[str, object]) -> str | None:
    """What is wrong with `folder` as a sealed copy of `origin`; None when it is intact."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files, sealed_origin = manifest["files"], manifest["origin"]
        faults = [f"{name} {wrong}" for name, record in files.items() if (wrong := _changed(folder / name, record))]
    except FileNotFoundError:
        return f"it has no {MANIFEST}, so it was never finished"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"its {MANIFEST} cannot be read"
    if sealed_origin != dict(origin):
        return "it was made from another source or in an older form"
    if not faults:
        _restamp(folder, manifest)
    return "; ".join(faults) or None


def _record(path: Path) -> dict[str, object]:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    status = path.stat()
    return {"bytes": status.st_size, "sha256": sha256(path), "modified": status.st_mtime_ns}


def _changed(path: Path, record: Mapping[str, object]) -> str | None:
    if not path.is_file():
        return "is missing"
    status = path.stat()
    if status.st_size != record["bytes"]:
        return f"has {status.st_size:,} bytes, expected {record['bytes']:,}"
    if status.st_mtime_ns != record["modified"] and sha256(path) != record["sha256"]:
        return "has other contents than when it was made"
    return None


def _restamp(folder: Path, manifest: dict) -> None:
    """After a copy or a restored backup only the times differ: note the new ones, if the folder may be written."""
    stamps = {name: (folder / name).stat().st_mtime_ns for name in manifest["files"]}
    if any(manifest["files"][name]["modified"] != stamp for name, stamp in stamps.items()):
        for name, stamp in stamps.items():
            manifest["files"][name]["modified"] = stamp
        with contextlib.suppress(OSError):
            _write(folder, manifest)


def _write(folder: Path, manifest: Mapping[str, object]) -> None:
    draft = folder / f"{MANIFEST}.{os.getpid()}"
    draft.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    draft.replace(folder / MANIFEST)
