"""The text an APEX-1 is trained on: by default the standard library's own source, which every machine has.

Held-out files are chosen by a hash of their name, so that they stay held out whatever else is in the folder.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nnatlas.errors import InputError

NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "__pycache__", "pydoc_data", "lib2to3"}
HELD_OUT_SHARE = 0.04


@dataclass(frozen=True)
class Document:
    """One file: its name relative to the corpus, and its text."""

    name: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """Whether the file is kept from training, decided by its name alone."""
        first_bytes = hashlib.sha256(self.name.encode()).digest()[:4]
        return int.from_bytes(first_bytes, "big") / 2**32 < HELD_OUT_SHARE


def standard_library() -> list[Document]:
    """Every module of the running interpreter's standard library, without its tests, in order of name."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (p for p in sorted(root.rglob("*.py")) if not NOT_LIBRARY & set(p.relative_to(root).parts))
    return [Document(p.relative_to(root).as_posix(), p.read_text("utf-8", errors="replace")) for p in paths]


def from_files(paths: Iterable[Path]) -> list[Document]:
    """The given text files, and every file in the given folders.  Raises `InputError` if one is missing or not text."""
    documents = []
    for path in paths:
        if not path.exists():
            raise InputError(f"no such file or folder for the corpus: {path}")
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        documents += [Document(p.name if p == path else p.relative_to(path).as_posix(), _read(p)) for p in inside]
    return documents


def split(documents: list[Document]) -> tuple[list[Document], list[Document]]:
    """(training, held out); where no name hashes into the held-out share, the last file is held out.

    Raises `InputError` for a corpus of fewer than two non-empty files, which leaves nothing to hold out.
    """
    documents = [d for d in documents if d.text.strip()]
    if len(documents) < 2:
        raise InputError(
            f"a corpus needs at least two non-empty files, one of them to hold out; this has {len(documents)}"
        )
    held_out = [d for d in documents if d.is_held_out] or [documents[-1]]
    names = {d.name for d in held_out}
    return [d for d in documents if d.name not in names], held_out


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}); give text files only") from error
