"""Continuations side by side: what generation gives, the same sampling for each, and text that stays text."""

from __future__ import annotations

import shutil

import pytest
import torch
from tests.edits.every_edit import model_of
from tests.tiny_models import IDS, left_alone

from nnatlas.edits import Continuations, continuations, steer
from nnatlas.edits.continuations import Continuation
from nnatlas.errors import InputError

GREEDY = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}


def test_they_are_what_generation_gives():
    model = model_of("llama")
    edit = steer(model, torch.linspace(-1, 1, model.hidden_size), layers=1, scale=9)
    with left_alone(model):
        shown = continuations(model, "Hi there", {"plain": None, "moved": edit}, **GREEDY)
        with edit, model.generate("Hi there", **GREEDY) as run:
            start = model.input_ids.shape[1]
            chances = model.next_token_probs[0]
        with model.generate("Hi there", **GREEDY) as plain:
            pass
    moved = shown["moved"]
    assert moved.ids == run.output[0, start:].tolist() and moved.text == run.text
    assert shown["plain"].ids == plain.output[0, start:].tolist() != moved.ids
    assert moved.next[0][1] == pytest.approx(float(chances.max()))
    assert moved.does == edit.describe() and shown["plain"].does == "as it is"
    with pytest.raises(InputError, match="no continuation 'none'; there are plain, moved"):
        shown["none"]


def test_sampling_starts_from_one_seed_and_leaves_the_threads_own_alone():
    model = model_of("llama")
    options = {"max_new_tokens": 6, "do_sample": True, "temperature": 2.0, "pad_token_id": 0}
    torch.manual_seed(5)
    before = torch.get_rng_state()
    shown = continuations(model, "Hi", {"one": None, "two": None}, seed=3, **options)
    other = continuations(model, "Hi", {"one": None}, seed=4, **options)
    assert torch.equal(torch.get_rng_state(), before)
    assert shown["one"].ids == shown["two"].ids != other["one"].ids


def test_hostile_text_stays_text():
    hostile = "<script>alert(1)</script>\x1b[31m"
    row = Continuation("<b>", "<i>does</i>", hostile, [1], [(hostile, 0.5)])
    shown = Continuations(hostile, [row])
    for html in (shown.page("<title>"), shown._repr_html_()):
        assert "<script" not in html and "<b>" not in html and "<i>" not in html and "&lt;script&gt;" in html
        assert "http" not in html.replace("http-equiv", "")
    assert "\x1b" not in repr(shown) and "<script>" in repr(shown)


def test_one_prompt_at_a_time():
    with pytest.raises(InputError, match="2 prompts"):
        continuations(model_of("llama"), torch.cat([IDS, IDS]), {"plain": None}, **GREEDY)


def test_the_page_opens_in_a_browser_without_a_complaint(tmp_path):
    """No console message, no request, no script of the text's; the columns stand side by side."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        pytest.skip("no Chromium here")
    hostile = "</section><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    rows = [Continuation(label, "does", hostile, [1], [(hostile, 0.5)]) for label in ("as it is", "scale 1")]
    path = tmp_path / "page.html"
    path.write_text(Continuations(hostile, rows).page("a title"), encoding="utf-8")
    seen = []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 700})
        tab.on("console", lambda message: seen.append(message.text))
        tab.on("request", lambda request: seen.append(request.url) if request.url.startswith("http") else None)
        tab.goto(path.as_uri())
        boxes = [section.bounding_box() for section in tab.locator("section").all()]
        assert tab.title() == "a title" and tab.locator("img").count() == 0
        assert tab.locator(".text").first.inner_text() == hostile + hostile
        browser.close()
    assert seen == [] and len(boxes) == 2
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
