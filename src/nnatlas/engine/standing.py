"""Standing edits: functions at points of a model that run inside every forward for as long as they stand.

A standing edit is a tap that a function answers instead of a body, so it is put and read, converted and written back by the
same machinery, on every stage and family.  A run takes the edits in when it opens and keeps them until it ends: their taps
are put before any of the body's, so the body sees a value after them.  A call of the model outside any run is given a run
of its own, without a body, for as long as it lasts.  While nothing stands, `BoundModel.standing` is None and no hook is on.

What is not edited: a submodule called by itself (no call of the model begins).  An edit entered while a forward stands at
the very place acts from the next time on; one entered in the middle of a watched module, from that module's next call on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from greenlet import getcurrent
from torch import nn

from nnatlas.bind.points import Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine.model_call import ModelCall
from nnatlas.engine.payloads import Call, forward_of
from nnatlas.engine.run import Run
from nnatlas.engine.taps import refuse_changed
from nnatlas.engine.visits import Alone, Guest, Visit
from nnatlas.errors import InputError

Function = Callable[[Any, ModelCall], Any]
"""What an edit does: it is given the value and the call, writes into the value or returns what shall stand in its place."""


class StandingEdit:
    """One function at one point; `of` is what it is listed as."""

    __slots__ = ("function", "of", "point")

    def __init__(self, point: Point, function: Function, of: Any = None) -> None:
        self.point, self.function, self.of = point, function, of

    def enter(self, model: BoundModel) -> None:
        """Stand from now on; what the place lacks on this load is raised here."""
        refuse_changed(self.point)
        trial = Alone(model)
        guest = Guest(self, Visit(trial, model))
        try:
            guest.sit_down()
        finally:
            guest.get_up()
            trial.end()
        if model.standing is None:
            model.standing = Standing(model)
        model.standing.add(self)

    def leave(self, model: BoundModel) -> None:
        """Stand no longer."""
        if model.standing is not None:
            model.standing.remove(self)


class Standing:
    """The edits that stand on one model, in the order in which they were entered, and the runs they are taken into."""

    def __init__(self, model: BoundModel) -> None:
        self.model = model
        self.edits: list[StandingEdit] = []
        self.visits: list[Visit] = []
        self.read: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # columns by cache, for caches that do not count
        self._hook = model.module.register_forward_pre_hook(_beginning(self), with_kwargs=True, prepend=True)
        for run in tuple(model.runs):
            self.welcome(run)

    def add(self, edit: StandingEdit) -> None:
        self.edits.append(edit)
        for visit in tuple(self.visits):
            visit.take_in(edit)

    def remove(self, edit: StandingEdit) -> None:
        if edit not in self.edits:
            return
        self.edits.remove(edit)
        for visit in tuple(self.visits):
            visit.let_go(edit)
        if not self.edits:
            self._close()

    def _close(self) -> None:
        self._hook.remove()
        self.model.standing = None
        for visit in tuple(self.visits):
            visit.end()
            if isinstance(visit.run, Alone):
                visit.run.end()

    def welcome(self, run: Run) -> Visit:
        """Take the edits into a run, which has put no tap yet; they go when it ends."""
        here = getcurrent()
        if any(one.answering and one.run.forward is here for one in tuple(self.visits)):
            raise InputError(
                "an edit's function called the model that it stands on, which would call it again without end"
            )
        visit = Visit(run, self.model)
        self.visits.append(visit)
        visit.removers.append(lambda: self.visits.remove(visit))
        run.keep(visit.end)
        for edit in tuple(self.edits):
            visit.take_in(edit)
        return visit

    def stay_first(self, run: Run) -> None:
        """A tap has just been put before all hooks (see `Point.ahead`): the edits that stand so go before it, in order."""
        for visit in tuple(self.visits):
            if visit.run is run:
                visit.stay_first()

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the model begins, in a run or alone."""
        call, here = Call(args, kwargs, forward_of(module)), getcurrent()
        visit = next((one for one in tuple(self.visits) if one.run.forward is here), None)
        if visit is not None and isinstance(visit.run, Alone) and not visit.answering:
            visit.run.end()  # an interrupted call, whose end never came
            visit = None
        if visit is None or visit.answering:
            visit = self.welcome(Alone(self.model))
        visit.begin(call, self.read)
        visit.answer(self.model.start.site, call)
        if call.changed:
            visit.run.note_call(call.args, call.kwargs)
        if isinstance(visit.run, Alone):
            visit.run.end_with(module)
        return (call.args, call.kwargs) if call.changed else None


def _beginning(standing: Standing) -> Any:
    """The hook as a function of its own, which copies of the module may carry along: it does nothing on them."""

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        if module is not standing.model.module or kwargs is None:
            return None
        return standing.begin(module, args, kwargs)

    return begin
