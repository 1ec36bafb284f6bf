"""Letters that cannot be seen, or that move what can, are written out wherever a token is shown."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from nnatlas.edits.continuations import Continuation, Continuations
from nnatlas.grid import Axis, Grid
from nnatlas.grid.page import page
from nnatlas.show import UNSEEN, readable, visible

UNSEEN_KINDS = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
SAMPLES = [
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200f",
    "\ufeff",
    "\u2028",
    "\x07",
    "\x1b",
    "\ue000",
    "\U000e0041",
    "\u3164",
    "\ufe0f",
]


def test_nothing_that_cannot_be_seen_is_left_of_any_letter_there_is():
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if unicodedata.category(letter) in UNSEEN_KINDS or letter in UNSEEN:
            shown = visible(letter), readable(letter)
            assert shown[0] != letter and shown[0].isprintable(), hex(code)
            assert shown[1] == "\n" or shown[1].isprintable(), hex(code)


def test_what_can_be_seen_stays():
    for text in ("Paris", "שלום", "日本", "naïve", "❤", "ß"):
        assert visible(text) == readable(text) == text
    assert visible("\u0301a") == "◌\u0301a"  # a mark of its own would sit on what stands before it
    assert readable(" a\n b") == " a\n b" and visible(" a\n b") == "·a↵·b"


@pytest.mark.parametrize("letter", SAMPLES)
def test_wherever_a_token_is_shown_it_is_written_out(letter):
    token, escaped = f"a{letter}b", visible(letter)
    axis = Axis("position" + letter, [token], numbered=True)
    grid = Grid([[1.0]], axis, Axis("x", ["y"]), title=token, units=token, text=[[token]], hover=[[token]], note=token)
    continued = Continuations(token, [Continuation(token, token, token, [1], [(token, 1.0)])])
    for text in (
        page(grid),
        repr(grid),
        grid.words(0, 0),
        repr(continued),
        continued.page("t"),
        continued._repr_html_(),
    ):
        assert letter not in text
        assert escaped in text or escaped.replace("\\", "\\\\") in text


def test_right_to_left_tokens_stand_apart_from_what_is_around_them():
    grid = Grid([[0.5]], Axis("position", ["שלום"], numbered=True), Axis("x", ["y"]), text=[["سلام"]], units="nats")
    shown = page(grid)
    name = json.dumps("\u2068position 0 שלום\u2069")[1:-1]
    assert name in shown and json.dumps("\u2068سلام\u2069")[1:-1] in shown
    assert "u2068" not in page(Grid([[0.5]], Axis("position", ["a"]), Axis("x", ["y"])))


def test_a_picture_writes_them_out(monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    written = []
    plain = Axes.text
    monkeypatch.setattr(
        Axes, "text", lambda self, x, y, text, **more: (written.append(text), plain(self, x, y, text, **more))[1]
    )
    from nnatlas.grid.picture import picture

    picture(Grid([[1.0]], Axis("a", ["b"]), Axis("c", ["d"]), title="\u202etitle", text=[["a\u202eb"]]), 50)
    assert written == ["a\\u202eb"]
