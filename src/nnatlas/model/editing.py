"""`model.editing(value, function)`: the door to standing edits, for users' own and for everything in `nnatlas.edits`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints
from nnatlas.engine.standing import Function, StandingEdit
from nnatlas.errors import InputError
from nnatlas.model.collect import wanted_points


class Editing:
    """One function at one or more values, standing from the beginning of its `with` to the end.  Made by `model.editing`."""

    def __init__(self, model: BoundModel, values: Iterable[str], function: Function, of: Any = None) -> None:
        self._model, self._function = model, function
        self._points = {name: _writable(point) for name, point in wanted_points(model, list(values)).items()}
        self._of = self if of is None else of
        self._standing: list[StandingEdit] = []

    @property
    def values(self) -> list[str]:
        """The values that are edited, by name."""
        return list(self._points)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The named axes of each value, such as `("batch", "num_heads", "query", "key")`."""
        return {name: point.layout.axes for name, point in self._points.items()}

    def __enter__(self) -> Editing:
        if self._standing:
            raise InputError(f"this edit stands already: {self!r}; make another one to have it twice")
        try:
            for point in self._points.values():
                edit = StandingEdit(point, self._function, self._of)
                edit.enter(self._model)
                self._standing.append(edit)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _leave(self) -> None:
        standing, self._standing = self._standing, []
        for edit in standing:
            edit.leave(self._model)

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        shown = ", ".join(self.values[:3]) + (f" and {len(self.values) - 3} more" if len(self.values) > 3 else "")
        return f"<editing {shown} with {name}>"


def _writable(point: Point | Computed) -> Point:
    """A point that an edit can reach; `ReadOnly` with the reason for any other."""
    if isinstance(point, Computed) or point.read_only:
        raise complaints.read_only(point)
    return point


def standing_on(model: BoundModel) -> list[Any]:
    """What stands on a model, in the order in which it was entered."""
    edits = [] if model.standing is None else model.standing.edits
    return list(dict.fromkeys(edit.of for edit in edits))


def edited_on(model: BoundModel) -> list[str]:
    """The names of the values that standing edits reach, each once."""
    edits = [] if model.standing is None else model.standing.edits
    return list(dict.fromkeys(edit.point.name for edit in edits))
