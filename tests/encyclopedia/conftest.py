"""One build of the whole site for all tests of its pages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnatlas.encyclopedia.checkpoint import measure
from nnatlas.encyclopedia.site import Built, build


@dataclass(frozen=True)
class Site:
    """A built site, and the seconds of computing that it took."""

    folder: Path
    built: Built
    seconds: float

    def text(self, page: str) -> str:
        return (self.folder / page).read_text(encoding="utf-8")

    def pages(self) -> list[Path]:
        return sorted(self.folder.rglob("*.html"))


@pytest.fixture(scope="session")
def checkpoint():
    """The bundled checkpoint, run once."""
    return measure("apex-1")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, checkpoint) -> Site:
    folder = tmp_path_factory.mktemp("site")
    started = time.process_time()
    built = build(folder, models={"apex-1": checkpoint})
    return Site(folder, built, time.process_time() - started)
