"""Rendered pages kept beside what they were made from, so that a review shows how a change looks.

`python -m tests.encyclopedia.renew_snapshots` writes them anew.
"""

from __future__ import annotations

import pytest
from tests.encyclopedia.renew_snapshots import FOLDER, PAGES, file_of, inputs, rendered

RENEW = "renew it: python -m tests.encyclopedia.renew_snapshots"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_as_kept(page):
    assert rendered()[page] == file_of(page).read_text(encoding="utf-8"), RENEW
    assert inputs(page) == file_of(page).with_suffix(".inputs.txt").read_text(encoding="utf-8"), RENEW


def test_nothing_else_is_kept():
    kept = {file_of(page).name for page in PAGES} | {file_of(page).with_suffix(".inputs.txt").name for page in PAGES}
    assert {path.name for path in FOLDER.iterdir()} == kept
