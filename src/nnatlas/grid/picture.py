"""A grid as a PNG picture, by matplotlib's object interface: no window, no global figure.

Labels are never read as formulas: a token may well be a dollar sign.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from nnatlas.grid.axis import Axis
from nnatlas.grid.grid import Grid, Pages
from nnatlas.grid.scale import LIGHT, Colour, Scale
from nnatlas.show import readable, visible

BESIDE, LABELLED = 4, 40
"""Pages in a row; places along an axis up to which each is labelled."""


def picture(shown: Grid | Pages, dpi: int) -> bytes:
    """The PNG's bytes."""
    axis, sheets = shown.sheets
    across = min(BESIDE, len(sheets))
    down = -(-len(sheets) // across)
    width, height = _inches(sheets[0])
    figure = Figure(figsize=(across * width, down * height + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    plots = figure.subplots(down, across, squeeze=False).flatten()
    for at, (sheet, plot) in enumerate(zip(sheets, plots, strict=False)):
        image = _draw(sheet, plot, axis.words(at) if isinstance(shown, Pages) else "")
    for unused in plots[len(sheets) :]:
        unused.set_axis_off()
    figure.colorbar(image, ax=list(plots), label=readable(sheets[0].units), shrink=0.8)
    figure.suptitle(readable(shown.title), parse_math=False)
    return _saved(figure, dpi)


def _inches(sheet: Grid) -> tuple[float, float]:
    """Width and height of one page: letters stay readable, and no picture is larger than a poster."""
    cell = 0.8 if sheet.text is not None else 0.28
    return min(24.0, 2.2 + cell * len(sheet.columns)), min(24.0, 1.6 + 0.24 * len(sheet.rows))


def _draw(sheet: Grid, plot: Any, title: str) -> Any:
    scale = sheet.scale
    image = plot.imshow(sheet.values, cmap=_colours(scale), vmin=scale.low, vmax=scale.high, aspect="auto")
    plot.set_title(title, fontsize=9, parse_math=False)
    for axis, place, turned in ((sheet.columns, plot.xaxis, 90), (sheet.rows, plot.yaxis, 0)):
        _label(axis, place, turned)
    if sheet.text is not None:
        _write(sheet, plot)
    return image


def _label(axis: Axis, place: Any, turned: int) -> None:
    every = -(-len(axis) // LABELLED)
    ticks = range(0, len(axis), every)
    place.set_ticks(ticks, [axis.shown[at] for at in ticks], rotation=turned, fontsize=7, parse_math=False)
    place.set_label_text(readable(axis.name))


def _write(sheet: Grid, plot: Any) -> None:
    for row in range(len(sheet.rows)):
        for column in range(len(sheet.columns)):
            letters = _unit(LIGHT.on(sheet.scale.share(sheet.values[row][column])))
            where = dict(ha="center", va="center", fontsize=6, color=letters, parse_math=False, clip_on=True)
            plot.text(column, row, visible(sheet.cell(row, column))[:12], **where)


def _colours(scale: Scale) -> LinearSegmentedColormap:
    stops = [LIGHT.low, LIGHT.paper, LIGHT.high] if scale.diverging else [LIGHT.paper, LIGHT.high]
    return LinearSegmentedColormap.from_list("nnatlas", [_unit(stop) for stop in stops])


def _unit(colour: Colour) -> tuple[float, ...]:
    return tuple(part / 255 for part in colour)


def _saved(figure: Figure, dpi: int) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # tokens of every script; a box stands for them
        figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()
