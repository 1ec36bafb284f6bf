"""A grid as HTML: a fragment for notebooks, a whole page for a file; both self-contained.

The first sheet stands in the markup, so it can be read where scripts do not run; the script draws the others from data
that stands beside it as JSON.  Jinja2 escapes every text, and the JSON has no character that could end its element.
"""

from __future__ import annotations

import itertools
import math
import os
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nnatlas.grid.grid import Grid, Pages
from nnatlas.grid.scale import DARK, LIGHT, STRONG
from nnatlas.show import readable, visible

ASSETS: Final = Path(__file__).parent / "assets"
DENSE: Final = 26
"""Columns from which numbers are left out of the cells, and headings stand upright."""
_numbers = itertools.count(1)


def page(shown: Grid | Pages) -> str:
    """A whole page, `<!doctype html>` and all."""
    return _templates().get_template("page.html.j2").render(**_described(shown))


def fragment(shown: Grid | Pages) -> str:
    """A `<figure>` with its own style and script; ids are unique among what one machine shows."""
    return _templates().get_template("figure.html.j2").render(**_described(shown))


@cache
def _templates() -> Environment:
    made = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.globals.update(light=LIGHT, dark=DARK, css=_asset("grid.css"), script=_asset("grid.js"))
    return made


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _described(shown: Grid | Pages) -> dict[str, Any]:
    """What the templates are filled with; `data` is what the script draws from."""
    axis, sheets = shown.sheets
    first = sheets[0]
    data = {
        "page": readable(axis.name),
        "corner": readable(f"{first.rows.name} / {first.columns.name}"),
        "units": readable(first.units),
        "low": first.scale.low,
        "high": first.scale.high,
        "diverging": first.scale.diverging,
        "strong": STRONG,
        "sheets": [_sheet(sheet, axis.shown[at]) for at, sheet in enumerate(sheets)],
    }
    notes = dict.fromkeys(one.note for one in (shown, *sheets) if one.note)
    return {
        "id": f"grid-{os.getpid()}-{next(_numbers)}",
        "title": readable(shown.title),
        "notes": [readable(note) for note in notes],
        "several": isinstance(shown, Pages),
        "dense": max(len(sheet.columns) for sheet in sheets) > DENSE and first.text is None,
        "ends": (f"{first.scale.low:.4g}", f"{first.scale.high:.4g}"),
        "cells": [[visible(first.cell(row, at)) for at in range(len(first.columns))] for row in range(len(first.rows))],
        "shares": [[round(first.scale.share(value), 3) for value in row] for row in first.values],
        "data": data,
    }


def _sheet(sheet: Grid, label: str) -> dict[str, Any]:
    """One sheet as plain data: headings, places in words, and the cells' numbers, texts and hovers."""
    return {
        "label": _apart(label),
        "rows": [_apart(label) for label in sheet.rows.shown],
        "columns": [_apart(label) for label in sheet.columns.shown],
        "row_words": [_apart(sheet.rows.words(at)) for at in range(len(sheet.rows))],
        "column_words": [_apart(sheet.columns.words(at)) for at in range(len(sheet.columns))],
        "decimals": sheet.decimals,
        "values": [[_number(value) for value in row] for row in sheet.values],
        "texts": None if sheet.text is None else [[_apart(visible(text)) for text in row] for row in sheet.text],
        "hover": None if sheet.hover is None else [[_lines(text) for text in row] for row in sheet.hover],
    }


def _number(value: float) -> float | None:
    """A number to four figures, which are all that a reader is told."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _lines(text: str) -> str:
    return "\n".join(_apart(readable(line)) for line in text.split("\n"))


def _apart(text: str) -> str:
    """A text that runs from right to left between isolates, so that it does not reorder what stands around it."""
    leftward = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text)
    return f"\u2068{text}\u2069" if leftward else text
