"""What a sweep hands out: named axes, the normalised form, a table, a page, a DataFrame."""

from __future__ import annotations

import pytest
import torch
from tests.patching.naive import metric
from tests.tiny_models import tiny

from nnatlas.errors import InputError
from nnatlas.grid import Axis
from nnatlas.patching import Patching, activation_patching

CLEAN, CORRUPTED = "<b>a cat", "<b>a dog"


@pytest.fixture(scope="module")
def found() -> Patching:
    return activation_patching(tiny("llama"), CLEAN, CORRUPTED, metric=metric)


def made(values: list, clean: list[float], corrupted: list[float]) -> Patching:
    axes = (Axis("layer", range(len(values[0]))), Axis("position", ["a", "b"], numbered=True))
    return Patching(
        torch.tensor(values), axes, torch.tensor(clean), torch.tensor(corrupted), ("m",) * 2, "title", "way"
    )


def test_normalised():
    shown = made([[[1.0, 3.0]], [[5.0, 0.0]]], clean=[3, 0], corrupted=[1, 10])
    assert shown.normalised.tolist() == [[[0, 1]], [[0.5, 1]]]
    assert shown.grid().values == [[0.25, 1.0]]  # the mean over pairs
    with pytest.raises(
        InputError, match=r"the metric \(m\) is 2 after both prompts of pair 1: it cannot tell them apart"
    ):
        made([[[1.0, 3.0]], [[5.0, 0.0]]], clean=[3, 2], corrupted=[1, 2]).normalised


def test_axes(found):
    assert [axis.name for axis in found.axes] == ["layer", "position"]
    assert found.axes[0].labels == ("0", "1", "2", "3")
    assert found.axes[1].labels[-3:] == ("c|d", "a|o", "t|g")
    assert found.values.dtype == torch.float32


def test_a_table(found):
    text = repr(found)
    lines = text.split("\n")
    assert lines[0].startswith("activation patching: layer_output, denoise")
    assert any(line.split()[:1] == ["3"] and line.split()[-1] == "1.00" for line in lines)
    assert "c|d" in text


def test_a_note_is_shown_where_the_plain_way_was_gone():
    shown = repr(activation_patching(tiny("gemma3n_text"), CLEAN, CORRUPTED, metric=metric))
    assert "whole forwards, many patches to a batch, because" in shown


def test_a_page_and_a_notebook(found, tmp_path):
    path = found.html(tmp_path / "patching.html")
    page = path.read_text(encoding="utf-8")
    assert "activation patching" in page and "position" in page
    assert "metric: " in page  # the hover tells the metric itself
    assert found._repr_html_()


def test_a_hostile_token_is_text(tmp_path):
    axes = (Axis("layer", range(2)), Axis("position", ["<script>x", "</td>y"], numbered=True))
    ends = torch.ones(1), torch.zeros(1)
    found = Patching(torch.rand(1, 2, 2), axes, *ends, ("<script>m",), "<script>title", "way", "<script>note")
    shown = found.html(tmp_path / "p.html").read_text(encoding="utf-8") + str(found._repr_html_())
    assert all(hostile not in shown for hostile in ("<script>x", "</td>y", "<script>m", "<script>t", "<script>n"))


def test_a_picture(found, tmp_path):
    pytest.importorskip("matplotlib")
    assert found.png(tmp_path / "patching.png").read_bytes()[:4] == b"\x89PNG"


def test_a_frame(found):
    pandas = pytest.importorskip("pandas")
    frame = found.frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == found.values.numel()
    assert {"layer", "position", "position_label", "value"} <= set(frame.columns)
    last = frame[(frame.layer == 3) & (frame.position == len(found.axes[1]) - 1)]
    assert float(last.value.iloc[0]) == pytest.approx(1, abs=1e-4)


def test_heads_at_positions_make_a_page_for_each_head():
    found = activation_patching(tiny("llama"), CLEAN, CORRUPTED, "attention_premix", "layer x position x head", metric)
    pages = found.grid()
    assert list(pages) == ["0", "1", "2", "3"]
    assert pages["2"].values[1][-1] == pytest.approx(float(found.normalised[0, 1, -1, 2]))
    assert "head 2" in repr(found)


def test_a_head_that_a_block_does_not_have_is_empty():
    from nnatlas.patching.cells import Cell
    from nnatlas.patching.result import axes_of, filled

    cells = [Cell(0, None, 0), Cell(0, None, 1), Cell(3, None, 0)]
    axes = axes_of(cells, [])
    grid = filled({cells[0]: 2.0}, cells, axes, default=1.0)
    assert axes[0].labels == ("0", "3")
    assert grid[0].tolist() == [2.0, 1.0] and grid[1, 0] == 1 and grid[1, 1].isnan()
