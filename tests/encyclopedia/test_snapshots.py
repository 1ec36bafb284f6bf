"""Rendered pages kept beside what they were made from, so that a review shows how a change looks.

`python -m tests.encyclopedia.renew_snapshots` writes them anew.
"""

from __future__ import annotations

import pytest
from tests.encyclopedia.renew_snapshots import FOLDER, PAGES, rendered


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_as_kept(name):
    kept = (FOLDER / name.replace("/", "-")).read_text(encoding="utf-8")
    assert rendered()[name] == kept, "renew them: python -m tests.encyclopedia.renew_snapshots"


def test_nothing_else_is_kept():
    assert {path.name for path in FOLDER.glob("*.html")} == {name.replace("/", "-") for name in PAGES}
