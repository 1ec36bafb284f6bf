"""Shown: everything that a grid can be seen as, for grids and for any result that knows its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnatlas.errors import InputError
from nnatlas.show import text_of

if TYPE_CHECKING:
    from nnatlas.grid.grid import Grid, Pages


class Shown:
    """Gives what has a `grid()` a table in the terminal, an interactive one in notebooks and pages, pictures, DataFrames."""

    def grid(self) -> Grid | Pages:
        """The numbers with their labels."""
        raise NotImplementedError

    def html(self, path: str | Path) -> Path:
        """Write one self-contained page: point at a cell to read it, click or Enter to keep it, arrow keys to move.

        Nothing is fetched from anywhere, and every text is escaped.  Returns the path.
        """
        from nnatlas.grid.page import page

        return _written(path, page(self.grid()).encode())

    def png(self, path: str | Path, dpi: int = 150) -> Path:
        """Write a picture, pages beside each other; needs matplotlib.  Returns the path."""
        needed("matplotlib")
        from nnatlas.grid.picture import picture

        return _written(path, picture(self.grid(), dpi))

    def frame(self) -> Any:
        """A pandas DataFrame with a row for each cell that is not empty: its place along each axis, label and value."""
        needed("pandas")
        from nnatlas.grid.frame import frame

        return frame(self.grid())

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from nnatlas.grid.terminal import tables

        yield from tables(self.grid(), options.max_width)

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str | None:
        """The interactive table for a notebook; without Jinja2 the notebook shows the text instead."""
        try:
            from nnatlas.grid.page import fragment
        except ImportError:
            return None
        return fragment(self.grid())


def needed(library: str) -> Any:
    """Import a library that plain reading and editing does not need.

    Raises:
        InputError: it is not installed; the message says what to type.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InputError(f"this needs {library}: pip install 'nnatlas[experiments]'") from None


def _written(path: str | Path, content: bytes) -> Path:
    place = Path(path)
    try:
        place.write_bytes(content)
    except OSError as wrong:
        raise InputError(f"cannot write {str(place)!r}: {wrong.strerror}") from None
    return place
