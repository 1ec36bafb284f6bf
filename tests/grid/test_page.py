"""The interactive page in a real browser: pointing, keeping, keys, sheets, hostile texts, no network, no console error."""

from __future__ import annotations

import re
import shutil

import pytest

from nnatlas.grid import Axis, Grid, Pages
from nnatlas.grid.page import fragment, page
from nnatlas.show import visible

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
ROWS, COLUMNS = Axis("layer", range(3)), Axis("position", ["The", HOSTILE, " of"], numbered=True)
VALUES = [[0.1, -0.2, 0.3], [0.4, float("nan"), 0.6], [0.7, 0.8, -0.9]]


def a_grid(**described):
    return Grid(VALUES, ROWS, COLUMNS, title=HOSTILE, units="nats", note=HOSTILE, **described)


def a_book():
    return Pages("head", {"0.0": a_grid(), HOSTILE: Grid([[1.0]], Axis("layer", [5]), Axis("position", ["x"]))}, "book")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens something shown; afterwards nothing may have been logged, thrown, fetched or run by a hostile text."""
    seen, tabs = [], []

    def show(shown, **options):
        tab = browser.new_page(**options)
        tab.on("console", lambda message: seen.append(message.text))
        tab.on("pageerror", lambda error: seen.append(str(error)))
        tab.on("request", lambda request: seen.append(request.url) if request.url.startswith("http") else None)
        tab.goto(shown.html(tmp_path / f"{len(tabs)}.html").as_uri())
        tabs.append(tab)
        return tab

    yield show
    assert seen == []
    assert all(tab.title() != "owned" and tab.locator("img").count() == 0 for tab in tabs)


def test_pointing_at_a_cell_reads_it(opened):
    tab = opened(a_grid(hover=[["best\n  0.9 cat"] * 3] * 3))
    cells, detail = tab.locator("tbody td"), tab.locator(".detail")
    assert "Point at a cell" in detail.inner_text()
    cells.nth(0).hover()
    assert detail.inner_text() == "layer 0, position 0 The: 0.1 nats\nbest\n  0.9 cat"
    cells.nth(4).hover()
    assert "layer 1, position 1" in detail.inner_text() and "nothing" in detail.inner_text()
    tab.mouse.move(0, 0)
    assert "Point at a cell" in detail.inner_text()


def test_a_click_keeps_a_cell_and_lets_it_go(opened):
    tab = opened(a_grid())
    cell, pins = tab.locator("tbody td").nth(8), tab.locator(".pins li")
    cell.click()
    assert cell.get_attribute("aria-selected") == "true"
    assert pins.count() == 1 and "layer 2, position 2 ·of: -0.9 nats" in pins.inner_text()
    assert "kept: layer 2" in tab.locator("[role=status]").inner_text()
    tab.locator("tbody td").nth(0).click()
    assert pins.count() == 2
    pins.nth(0).get_by_role("button").click()
    assert pins.count() == 1 and cell.get_attribute("aria-selected") == "false"


def test_everything_can_be_done_by_keyboard(opened):
    tab = opened(a_grid())
    label = lambda: tab.evaluate("document.activeElement.getAttribute('aria-label')")
    tab.keyboard.press("Tab")
    assert label() == "layer 0, position 0 The: 0.1 nats"
    for key, where in (
        ("ArrowDown", "layer 1, position 0"), ("ArrowRight", "layer 1, position 1"), ("End", "layer 1, position 2"),
        ("ArrowRight", "layer 1, position 2"), ("Control+End", "layer 2, position 2"), ("ArrowUp", "layer 1, position 2"),
        ("ArrowLeft", "layer 1, position 1"), ("Control+Home", "layer 0, position 0"), ("ArrowUp", "layer 0, position 0"),
    ):  # fmt: skip
        tab.keyboard.press(key)
        assert label().startswith(where), key
    assert tab.locator(".detail").inner_text() == label()
    tab.keyboard.press("Enter")
    assert tab.locator(".pins li").count() == 1
    tab.keyboard.press("Escape")
    assert tab.locator(".pins li").count() == 0
    assert tab.locator("tbody td[tabindex='0']").count() == 1  # one stop for the tab key


def test_sheets_are_chosen_and_kept_cells_know_theirs(opened):
    tab = opened(a_book())
    tab.locator("tbody td").nth(0).click()
    assert "head 0.0, layer 0, position 0 The: 0.1 nats" in tab.locator(".pins").inner_text()
    tab.keyboard.press("PageDown")
    assert tab.locator("tbody td").count() == 1 and tab.locator("tbody th").inner_text() == "5"
    assert tab.locator("select").input_value() == "1"
    tab.locator("tbody td").click()
    assert tab.locator(".pins li").count() == 2
    tab.locator("select").select_option("0")
    assert tab.locator("tbody td").nth(0).get_attribute("aria-selected") == "true"


def test_a_hostile_text_is_shown_as_text(opened):
    tab = opened(a_book())
    assert tab.locator("thead th").nth(1).text_content() == visible(HOSTILE)
    assert tab.locator("option").nth(1).text_content() == visible(HOSTILE)
    tab = opened(a_grid(text=[[HOSTILE] * 3] * 3, hover=[[HOSTILE] * 3] * 3))
    tab.locator("tbody td").nth(0).hover()
    assert tab.locator(".detail").inner_text() == f"layer 0, position 0 The: {visible(HOSTILE)} 0.1 nats\n{HOSTILE}"
    assert tab.locator("figcaption").inner_text() == HOSTILE
    assert tab.locator(".note").inner_text() == HOSTILE


def test_colours_follow_the_reader_and_print_is_light(opened):
    ground = lambda tab: tab.locator("figure").evaluate("x => getComputedStyle(x).backgroundColor")
    cell = lambda tab: tab.locator("tbody td").nth(8).evaluate("x => getComputedStyle(x).color")
    light, dark = opened(a_grid(), color_scheme="light"), opened(a_grid(), color_scheme="dark")
    assert ground(light) == "rgb(255, 255, 255)" and ground(dark) == "rgb(20, 22, 27)"
    assert cell(light) == "rgb(255, 255, 255)" and cell(dark) == "rgb(0, 0, 0)"  # on the strong end of the scale
    dark.emulate_media(media="print")
    assert ground(dark) == "rgb(255, 255, 255)" and dark.locator(".hint").count() == 0
    assert dark.locator("thead th").nth(0).is_visible()


def test_without_scripts_the_first_sheet_can_be_read(browser, opened, tmp_path):
    tab = browser.new_context(java_script_enabled=False).new_page()
    tab.goto(a_book().html(tmp_path / "still.html").as_uri())
    drawn = opened(a_book())
    look = "cells => cells.map(cell => [cell.textContent, getComputedStyle(cell).backgroundColor])"
    assert tab.locator("tbody td").evaluate_all(look) == drawn.locator("tbody td").evaluate_all(look)
    assert tab.locator("tbody td").all_inner_texts() == [
        "0.10",
        "-0.20",
        "0.30",
        "0.40",
        "",
        "0.60",
        "0.70",
        "0.80",
        "-0.90",
    ]


def test_two_fragments_of_a_notebook_do_not_meddle(browser, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{fragment(a_grid())}{fragment(a_book())}", encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    tab.locator("figure").nth(1).locator("tbody td").nth(3).click()
    assert tab.locator("figure").nth(0).locator(".pins li").count() == 0
    assert tab.locator("figure").nth(1).locator(".pins li").count() == 1


def test_a_page_brings_all_it_needs():
    text = page(Grid([[1.0]], Axis("layer", [5]), Axis("position", ["x"])))
    assert re.findall(r"""(?:src|href)\s*=\s*\S+""", text) == ['href="data:,">']
    assert "default-src 'none'" in text and "http:" not in text and "https:" not in text and "@import" not in text
    assert HOSTILE not in page(a_book())
    ids = re.findall(r'id="(grid-[\d-]+)"', fragment(a_grid()) + fragment(a_grid()))
    assert len(ids) == len(set(ids)) == 2
