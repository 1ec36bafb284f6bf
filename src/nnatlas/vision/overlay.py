"""A picture with one number for each of its tokens laid over it: in a notebook, as a page, and as a tensor."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from torch import Tensor

SIDE = 384
"""Pixels of the longer side of the picture as it is shown."""
LEAST = 24
"""Pixels of the shorter one, at least."""


@dataclass(frozen=True)
class Overlay:
    """`amounts [rows, columns]` over `picture` (Pillow).  `title` says what the amounts are.

    A cell is the redder the larger its amount, and the bluer the further below nought it is; hovering shows the number.
    """

    picture: Any
    amounts: Tensor
    title: str

    def html(self) -> str:
        """The overlay as a fragment of HTML that needs nothing from elsewhere."""
        rows, columns = self.amounts.shape
        wide, high = _fitted(*self.picture.size)
        cells = "".join(self._cell(row, column) for row in range(rows) for column in range(columns))
        grid = f"display:grid;grid-template:repeat({rows},1fr)/repeat({columns},1fr)"
        size = f"width:min({wide}px,100%);aspect-ratio:{wide}/{high}"
        image = f"background:url(data:image/png;base64,{_png(self.picture)}) 0/100% 100%"
        said = escape(f"{self.title}; {self._scale()}", quote=True)
        return (
            f"<figure style='margin:0'><div role='img' aria-label='{said}' style='{grid};{size};{image}'>{cells}</div>"
            f"<figcaption style='font:13px/1.4 sans-serif;margin-top:4px'>{said}</figcaption></figure>"
        )

    def _scale(self) -> str:
        """What the strongest colours stand for."""
        most, least = float(self.amounts.max()), float(self.amounts.min())
        said = f"red up to {most:.3g}" if most > 0 else ""
        below = f"blue down to {least:.3g}" if least < 0 else ""
        return ", ".join(part for part in (said, below) if part) or "nought everywhere"

    def save(self, path: str | Path) -> Path:
        """Write the overlay as a page of its own."""
        seen = "<meta name=viewport content='width=device-width'><meta name=color-scheme content='light dark'>"
        title = f"<title>{escape(self.title)}</title>"
        page = f"<!doctype html><html lang=en><meta charset=utf-8>{seen}{title}<body>{self.html()}</body></html>"
        Path(path).write_text(page, encoding="utf-8")
        return Path(path)

    def _cell(self, row: int, column: int) -> str:
        amount = float(self.amounts[row, column])
        strength = 0.75 * abs(amount) / max(float(self.amounts.abs().max()), 1e-12)
        colour = "220,40,30" if amount >= 0 else "40,80,220"
        return f"<i title='{row}, {column}: {amount:.4g}' style='background:rgba({colour},{strength:.2f})'></i>"

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        rows, columns = self.amounts.shape
        return f"<{self.title}: {rows} x {columns} tokens on a picture of {self.picture.size}>"


def _fitted(wide: int, high: int) -> tuple[int, int]:
    longer = max(wide, high)
    return max(LEAST, SIDE * wide // longer), max(LEAST, SIDE * high // longer)


def _png(picture: Any) -> str:
    """The picture's bytes as PNG, in base64."""
    held = io.BytesIO()
    picture.convert("RGB").save(held, format="PNG")
    return base64.b64encode(held.getvalue()).decode()
