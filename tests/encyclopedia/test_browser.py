"""The site in a real browser, at phone and desktop width, light and dark: what the hand does, and what axe finds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

PHONE, DESKTOP = {"width": 375, "height": 800}, {"width": 1280, "height": 900}
LOOKS = [(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"), (DESKTOP, "dark")]
PAGES = [
    "index.html", "family/exaone4.html", "family/cohere2.html", "family/apex1.html", "family/qwen3_next.html", "vocabulary.html",
    "value/self_attn.attention_scores.html", "trait/moe.html", "layout/Queries.html", "layouts.html", "traits.html",
    "coming-from.html", "adding.html", "model/apex-1.html", "source/src/nnatlas/families/llama.py.html",
]  # fmt: skip

SEEN_BY_AXE = [
    "family/gpt2.html",
    "adding.html",
    "index.html",
    "family/exaone4.html",
    "model/apex-1.html",
    *PAGES[5:13],
]
"""The first two in every look; the large ones, which axe takes its time for, in one."""


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, site) -> Iterator:
    """Open a page of the site; anything a page complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def go(page: str, size=DESKTOP, scheme="light", scripts=True):
        context = chromium.new_context(viewport=size, color_scheme=scheme, java_script_enabled=scripts)
        contexts.append(context)
        opened = context.new_page()
        opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(f"file://{site.folder}/{page}")
        return opened

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def part(page, text: str):
    return page.locator(f".picture:not([hidden]) .part:has(text:text-is('{text}'))")


# -- the block ---------------------------------------------------------------------------------------------------------


def test_pointing_at_a_part_opens_its_card(visit):
    page = visit("family/cohere2.html")
    part(page, "scores").hover()
    card = page.locator("[data-card]")
    assert card.locator(".card-title").inner_text() == "model.layers[i].self_attn.attention_scores"
    assert "Pattern [batch num_heads query key]" in card.inner_text()
    assert "What enters the softmax, mask added." in card.inner_text()
    page.mouse.move(5, 5)
    assert "Point at a part" in card.inner_text()


def test_every_part_has_a_card(visit):
    script = """parts => parts.map(part => {
        part.dispatchEvent(new PointerEvent("pointerenter"));
        const card = document.querySelector("[data-card]");
        const name = part.dataset.title || part.getAttribute("href").split(".").pop();
        return [name, card.querySelector(".card-title").textContent, card.children.length];
    })"""
    for name in ("apex1", "jamba", "openai-gpt", "llava", "granite"):
        for title, shown_title, lines in visit(f"family/{name}.html").locator(".part").evaluate_all(script):
            assert shown_title.endswith(title.removeprefix("#value-")) and lines > 1, f"{name}: {title}"


def test_a_click_pins_the_card_and_escape_lets_it_go(visit):
    page = visit("family/cohere2.html")
    part(page, "queries").click()
    part(page, "values").hover()
    title = page.locator("[data-card] .card-title")
    assert title.inner_text().endswith("attention_queries")
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    part(page, "values").hover()
    assert title.inner_text().endswith("attention_values")
    assert page.url.endswith("cohere2.html")  # a click does not jump to the row; the card links there
    part(page, "values").click()
    page.get_by_role("link", name="Its row in the table").click()
    assert page.url.endswith("#value-self_attn.attention_values")


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_the_slider_chooses_the_block(visit, size):
    page = visit("family/exaone4.html", size)
    slider = page.get_by_role("slider")
    assert part(page, "window 4096").count() == 1
    slider.fill("3")
    assert page.locator("[data-which]").inner_text() == "3"
    assert part(page, "window 4096").count() == 0 and part(page, "no rotary").count() == 1
    assert "full" in page.locator("[data-kind]").inner_text()
    slider.press("ArrowRight")
    assert page.locator("[data-which]").inner_text() == "4" and part(page, "window 4096").is_visible()


def test_the_strip_and_the_list_of_sorts_choose_the_block_too(visit):
    page = visit("family/exaone4.html")
    chosen, current = page.locator("[data-which]"), page.locator("[data-go][aria-current]")
    assert page.locator("[data-stack] i").count() == 64
    page.locator("[data-stack] i").nth(7).click()
    assert (chosen.inner_text(), page.locator("[data-slider]").input_value()) == ("7", "7")
    assert "no rotary" in current.inner_text()
    page.locator("[data-go]").first.click()
    assert chosen.inner_text() == "0"
    assert current.count() == 1 and "sliding" in current.inner_text()
    assert page.locator("[data-stack] i.here").evaluate_all("all => all.length") == 1


def test_the_block_works_by_keyboard(visit):
    page = visit("family/llama.html")
    part(page, "layer_input").focus()
    assert page.locator("[data-card] .card-title").inner_text() == "model.layers[i].layer_input"
    page.keyboard.press("Tab")
    first = page.locator("[data-card] .card-title").inner_text()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator("[data-card] .card-title").inner_text() == first  # pinned by Enter
    page.keyboard.press("Escape")


def test_without_scripts_every_sort_of_block_is_there(visit):
    page = visit("family/exaone4.html", scripts=False)
    assert page.locator(".picture:visible").count() == 2 and page.locator(".identity:visible").count() == 2
    assert not page.locator("[data-controls]").is_visible()
    part(page, "scores").first.click()
    assert page.url.endswith("#value-self_attn.attention_scores")


def test_print_shows_every_sort_of_block(visit):
    page = visit("family/exaone4.html")
    page.emulate_media(media="print")
    assert page.locator(".picture:visible").count() == 2
    assert not page.locator("[data-controls]").is_visible()


# -- the front page ----------------------------------------------------------------------------------------------------


def shown(page) -> list[str]:
    return page.locator("[data-family]:visible").evaluate_all("items => items.map(item => item.dataset.family)")


def test_search_narrows_the_list(visit):
    page = visit("index.html")
    everything = len(shown(page))
    page.get_by_role("searchbox").fill("olmo")
    found = shown(page)
    assert 0 < len(found) < everything and "olmo2" in found and "llama" not in found
    assert page.get_by_role("status").inner_text() == f"{len(found)} families"
    page.get_by_role("button", name="Clear").first.click()
    assert len(shown(page)) == everything and "#" not in page.url


def test_traits_filter_with_and_without_and_stand_in_the_address(visit):
    page = visit("index.html")
    moe = page.locator("[data-trait=moe]")
    moe.click()
    with_experts = set(shown(page))
    assert "mixtral" in with_experts and "llama" not in with_experts and page.url.endswith("#with=moe")
    page.locator("[data-trait=rotary]").click()
    page.locator("[data-trait=rotary]").click()
    assert page.url.endswith("#with=moe&without=rotary") and set(shown(page)) < with_experts
    again = visit("index.html#" + page.url.partition("#")[2])
    assert shown(again) == shown(page)
    moe.click()
    assert moe.get_attribute("aria-pressed") == "true" and "mixtral" not in shown(page)
    moe.click()
    assert moe.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_families_stand_side_by_side(visit, size):
    page = visit("index.html", size)
    for name in ("cohere2", "llama"):
        page.get_by_label(f"compare {name}", exact=True).check()
    table = page.locator("[data-table]")
    row = {
        line.locator("th").inner_text(): line.locator("td").all_inner_texts()
        for line in table.locator("tbody tr").all()
    }
    assert row["readout"] == ["norm | lm_head | * logit_scale", "norm | lm_head"]
    assert row["num layers"] == ["32", "32"]
    assert "compare=cohere2,llama" in page.url
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.get_by_label("only what differs").check()
    assert "num layers" not in table.inner_text() and "readout" in table.inner_text()
    assert visit("index.html#compare=gpt2", size).locator("[data-table] thead").inner_text().strip() == "gpt2"


def test_what_is_chosen_stays_in_sight_and_leads_to_the_table(visit):
    page = visit("index.html")
    tray = page.locator("[data-tray]")
    assert not tray.is_visible()
    for name in ("llama", "gemma2"):
        page.locator(f'[data-family="{name}"] [data-choose]').check()
    assert tray.locator("[role=status]").inner_text() == "gemma2, llama"
    page.get_by_role("link", name="See them side by side").click()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Families side by side"
    assert page.url.endswith("#compare=gemma2,llama")  # the address still tells what was chosen


def test_light_and_dark_by_hand(visit):
    page = visit("index.html", scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Show this page in dark colours").click()
    assert page.evaluate(paper) != light
    assert visit("index.html", scheme="dark").evaluate(paper) == page.evaluate(paper)


# -- every page, every look --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("size, scheme", LOOKS)
def test_no_page_is_wider_than_the_screen(visit, size, scheme):
    for name in PAGES:
        page = visit(name, size, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], name


@pytest.mark.slow
@pytest.mark.parametrize("size, scheme", LOOKS)
def test_axe_finds_no_serious_fault(visit, size, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name in SEEN_BY_AXE if (size, scheme) == LOOKS[-1] else SEEN_BY_AXE[:2]:
        found = axe.run(visit(name, size, scheme), options={"resultTypes": ["violations"], "preload": False}).response[
            "violations"
        ]
        serious = [
            f"{one['id']}: {one['nodes'][0]['html'][:160]} ({len(one['nodes'])})"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], name


def test_the_page_of_ones_own_model_stands_alone(chromium, checkpoint, tmp_path):
    from nnatlas.encyclopedia.site import alone

    file = tmp_path / "mine.html"
    file.write_text(alone(checkpoint), encoding="utf-8")
    context = chromium.new_context(viewport=DESKTOP)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{file}")
    part(page, "layer_input").hover()
    assert page.locator("[data-card] .card-title").inner_text() == "model.layers[i].layer_input"
    assert [url for url in asked if url != f"file://{file}" and not url.startswith("data:")] == []
    context.close()
