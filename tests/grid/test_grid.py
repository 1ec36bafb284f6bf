"""Grids: labels fit numbers, cells say what they are, scales and contrasts are right, tables and frames hold every cell."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from nnatlas.errors import InputError, LayoutError
from nnatlas.grid import Axis, Grid, Pages
from nnatlas.grid.scale import DARK, LIGHT, contrast, decimals_for, scale_for
from nnatlas.show import text_of

TOKENS = Axis("position", ["The", " cat", "\n"], numbered=True)


@pytest.fixture
def grid():
    values = torch.tensor([[0.5, -2.0, 1.0], [math.nan, 0.25, 4.0]])
    return Grid(values, Axis("layer", [0, 7]), TOKENS, title="effect", units="nats", note="held scale")


@pytest.fixture
def pages(grid):
    return Pages("head", {"0.0": grid, "0.1": Grid([[9.0]], Axis("layer", [3]), Axis("position", ["x"]))}, title="both")


def test_a_cell_in_words(grid):
    assert grid.words(0, 1) == "layer 0, position 1 ·cat: -2 nats"
    assert grid.words(1, 0) == "layer 7, position 0 The: nothing nats"
    named = Grid([[0.5]], Axis("head", ["5.2"]), Axis("position", ["a"]), text=[[" b"]], hover=[["more\nlines"]])
    assert named.words(0, 0) == "head 5.2, position a: ·b 0.5\nmore\nlines"


def test_cells_show_about_two_figures_of_the_largest(grid):
    assert [grid.cell(0, at) for at in range(3)] == ["0.50", "-2.00", "1.00"]
    assert grid.cell(1, 0) == ""
    assert [decimals_for(x) for x in ([0.98], [0.5], [0.012], [12.5], [3.0, 2.0], [4321.5], [])] == [
        2,
        2,
        3,
        1,
        0,
        0,
        0,
    ]
    small = Grid([[-0.001, 0.9]], Axis("a", "x"), Axis("b", "yz"))
    assert small.cell(0, 0) == "0.00"  # never -0.00


def test_numbers_of_any_dtype_and_form():
    for given in ([[1, 2]], torch.tensor([[1, 2]]), torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)):
        assert Grid(given, Axis("a", "x"), Axis("b", "yz")).values == [[1.0, 2.0]]


def test_what_does_not_fit_is_refused():
    with pytest.raises(LayoutError, match=r"values are 1 x 2, the labels 1 \(layer\) x 3 \(position\)"):
        Grid([[1, 2]], Axis("layer", [0]), TOKENS)
    with pytest.raises(LayoutError, match="text are 2 x 1 or 3"):
        Grid([[1, 2, 3]], Axis("layer", [0]), TOKENS, text=[["a", "b", "c"], ["d"]])
    with pytest.raises(LayoutError, match="values of a grid are `rows columns`"):
        Grid([[[1]]], Axis("layer", [0]), TOKENS)
    with pytest.raises(LayoutError, match=r"values are 2 pages, the labels 1 \(head\)"):
        Pages.of([[[1]], [[2]]], Axis("head", ["0.0"]), Axis("a", "x"), Axis("b", "y"))
    with pytest.raises(InputError, match="no head to show"):
        Pages("head", {})


def test_pages_share_one_scale_and_are_found_by_name(pages):
    assert (pages["0.0"].scale.low, pages["0.0"].scale.high) == (-9, 9)  # one of them reaches below zero
    assert pages["0.1"].title == "both: head 0.1"
    assert list(pages) == ["0.0", "0.1"] and len(pages) == 2
    with pytest.raises(InputError, match=r"no head '9\.9'; there are 0\.0, 0\.1"):
        pages["9.9"]
    axes = Axis("head", ["0.0", "0.1"]), Axis("query", "ab"), Axis("key", "ab")
    made = Pages.of(torch.arange(8).reshape(2, 2, 2), *axes)
    assert made["0.1"].values == [[4, 5], [6, 7]] and made["0.0"].scale.high == 7


# --- colours --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, limits, expected",
    [
        ([0.2, 0.9], None, (0, 0.9, False)),
        ([-1, 4], None, (-4, 4, True)),
        ([0, 0], None, (0, 1, False)),
        ([-3, -1], None, (-3, 3, True)),
        ([0.2], (0, 1), (0, 1, False)),
        ([0.2], (-1, 1), (-1, 1, True)),
        ([math.nan, math.inf, 2], None, (0, 2, False)),
    ],
)
def test_scales(values, limits, expected):
    scale = scale_for(values, limits)
    assert (scale.low, scale.high, scale.diverging) == expected


def test_a_share_is_cut_off_at_the_ends():
    diverging, sequential = scale_for([-4, 2]), scale_for([1, 2], (1, 3))
    assert [diverging.share(x) for x in (-9, -4, 0, 2, 9)] == [-1, -1, 0, 0.5, 1]
    assert [sequential.share(x) for x in (0, 1, 2, 9, math.nan)] == [0, 0, 0.5, 1, 0]


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_letters_can_be_read_on_every_colour(scheme):
    shares = [share / 500 for share in range(-500, 501)]
    assert min(contrast(scheme.on(share), scheme.mixed(share)) for share in shares) >= 4.5


def colour_blind(colour, kind):
    """Machado, Oliveira and Fernandes 2009, full severity, on linear light."""
    matrices = {
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    }
    linear = torch.tensor([(part / 255) ** 2.2 for part in colour])
    return (torch.tensor(matrices[kind]) @ linear).clamp(0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
@pytest.mark.parametrize("kind", ["protan", "deutan", "tritan"])
def test_the_two_ends_stay_apart_for_the_colour_blind(scheme, kind):
    for share in (0.3, 0.6, 1.0):
        high, low = (colour_blind(scheme.mixed(end), kind) for end in (share, -share))
        assert (high - low).abs().max() > 0.25 * share


# --- terminal, frame, picture ---------------------------------------------------------------------------------------


def test_a_terminal_shows_bands_as_wide_as_it_is(grid):
    wide = text_of(grid, 80).split("\n")
    assert wide[0] == "effect (nats)"
    assert wide[1].split() == ["layer", "The", "·cat", "↵"]
    assert wide[2].split() == ["0", "0.50", "-2.00", "1.00"] and wide[3].split() == ["7", "0.25", "4.00"]
    assert wide[-1] == "held scale"
    long = Grid([[1.0] * 40], Axis("layer", [0]), Axis("position", ["abc"] * 40, numbered=True))
    lines = text_of(long, 30).split("\n")
    assert max(map(len, lines)) <= 30 and sum(line.count("abc") for line in lines) == 40


def test_a_terminal_shows_a_few_pages_and_says_how_many_more(grid):
    many = Pages("head", {f"0.{at}": grid for at in range(7)})
    text = text_of(many)
    assert "head 0.3" in text and "head 0.4" not in text and "and 3 more: pages['0.4']" in text


def test_a_frame_has_a_row_for_every_cell_that_is_not_empty(grid, pages):
    pandas = pytest.importorskip("pandas")
    frame = grid.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["layer", "position", "position_label", "value"] and len(frame) == 5
    assert frame[(frame.layer == 7) & (frame.position == 2)].value.item() == 4.0
    both = pages.frame()
    assert list(both["head"].unique()) == ["0.0", "0.1"] and len(both) == 6


def test_a_picture_is_a_png_of_any_token(grid, tmp_path):
    pytest.importorskip("matplotlib")
    strange = Axis("position", ["$x_", "猫", "<b>"], numbered=True)
    for shown, name in ((grid, "a.png"), (Grid(grid.values, grid.rows, strange, text=[["$"] * 3] * 2), "b.png")):
        assert shown.png(tmp_path / name).read_bytes().startswith(b"\x89PNG")
    several = Pages("head", {f"0.{at}": grid for at in range(5)}, title="$")
    one, five = grid.png(tmp_path / "c.png"), several.png(tmp_path / "d.png")
    assert size(five)[0] > 2.5 * size(one)[0]


def size(path):
    from matplotlib.image import imread

    return imread(path).shape[1::-1]


@pytest.mark.parametrize("library, call", [("pandas", "frame"), ("matplotlib", "png")])
def test_without_a_library_it_says_what_to_install(grid, monkeypatch, tmp_path, library, call):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"{library}: pip install 'nnatlas\[experiments\]'"):
        getattr(grid, call)(*([tmp_path / "x.png"] if call == "png" else []))


def test_a_path_that_cannot_be_written_is_an_input_error(grid, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        grid.html(tmp_path / "no" / "folder.html")
