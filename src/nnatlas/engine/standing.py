"""Standing edits: functions at points of a model that run inside every forward for as long as they stand.

A standing edit is a tap that a function answers instead of a body, so it is put and read, converted and written back by the
same machinery, on every stage and family.  A run takes the edits in when it opens and keeps them until it ends: their taps
are put before any of the body's, so the body sees a value after them.  A call of the model outside any run is given a run
of its own, without a body, for as long as it lasts.  While nothing stands, `BoundModel.standing` is None and no hook is on.

What is not edited: a submodule called by itself (no call of the model begins).  An edit entered while a forward stands at
the very place acts from the next time on; one entered in the middle of a watched module, from that module's next call on.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from greenlet import getcurrent
from torch import Tensor, nn

from nnatlas.bind.points import OUTPUT, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine.crossing import Side
from nnatlas.engine.held import Stop
from nnatlas.engine.model_call import ModelCall, cache_of, cached_columns
from nnatlas.engine.payloads import Call, forward_of
from nnatlas.engine.run import Run
from nnatlas.engine.taps import INSTALLERS, PREPARE, Remover, refuse_compiled

Function = Callable[[Any, ModelCall], Any]
"""What an edit does: it is given the value and the call, writes into the value or returns what shall stand in its place."""


class StandingEdit:
    """One function at one point; `of` is what it is listed as."""

    __slots__ = ("function", "of", "point")

    def __init__(self, point: Point, function: Function, of: Any = None) -> None:
        self.point, self.function, self.of = point, function, of

    def enter(self, model: BoundModel) -> None:
        """Stand from now on; what the place lacks on this load is raised here."""
        refuse_compiled(self.point.module)
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
        self._hook = model.module.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True)
        for run in model.runs:
            self.welcome(run)

    def add(self, edit: StandingEdit) -> None:
        self.edits.append(edit)
        for visit in self.visits:
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
        visit = Visit(run, self.model)
        self.visits.append(visit)
        visit.removers.append(lambda: self.visits.remove(visit))
        run.keep(visit.end)
        for edit in self.edits:
            visit.take_in(edit)
        return visit

    def stay_first(self, run: Run) -> None:
        """A tap has just been put before all hooks (see `Point.ahead`): the edits that stand so go before it, in order."""
        for visit in self.visits:
            if visit.run is run:
                visit.stay_first()

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the model begins, in a run or alone."""
        call, here = Call(args, kwargs, forward_of(module)), getcurrent()
        visit = next((one for one in self.visits if one.run.forward is here), None)
        if visit is not None and isinstance(visit.run, Alone):
            visit.run.end()  # an interrupted call, whose end never came
            visit = None
        visit = visit or self.welcome(Alone(self.model))
        visit.begin(call, self.read)
        visit.answer(self.model.start.site, call)
        if call.changed:
            visit.run.note_call(call.args, call.kwargs)
        if isinstance(visit.run, Alone):
            visit.run.end_with(module)
        return (call.args, call.kwargs) if call.changed else None


class Alone(Run):
    """The run of one call of the model that nobody opened a run for."""

    def __init__(self, model: BoundModel) -> None:
        super().__init__(model, lambda: None)
        self.forward, self._side = getcurrent(), Side()

    def wants(self, site: Any) -> bool:
        return False

    def misses(self, end: Point) -> bool:
        return False

    def end_with(self, module: nn.Module) -> None:
        """End when the call that is beginning does, after everybody's hooks."""
        here = self.forward

        def done(*_: Any) -> None:
            if getcurrent() is here:
                self.end()

        self.keep(module.register_forward_hook(done, always_call=True).remove)

    def end(self) -> None:
        """Take everything off; a call that was interrupted may have left function modes behind."""
        if self.forward is None:
            return
        self.forward = None
        self._taps.clear()
        self.watches.clear()
        self._side.restore()


class Visit:
    """The edits in one run: the guests that answer for them there, and what is known of the call that is running."""

    def __init__(self, run: Run, model: BoundModel) -> None:
        self.run, self.model = run, model
        self.guests: dict[StandingEdit, Guest] = {}
        self.removers: list[Remover] = []
        self._call: ModelCall | None = None
        self._prompt: int | None = None  # columns that the run's first call read
        if run.calls > 1:
            self._prompt = 0  # come too late to know: all counts as new
        if run.calls:
            self._catch_up()

    @property
    def call(self) -> ModelCall:
        """The call that is running."""
        assert self._call is not None, "the model is called before anything in it"
        return self._call

    def _catch_up(self) -> None:
        """Know a call that began before any edit stood: by its arguments where it still stands at its start, else only by
        its size and mask."""
        stop = self.run._stop
        if stop is not None and stop.site == self.model.start.site:
            self.begin(stop.payload, {})
        else:
            self._call = ModelCall(self.run._size, self.run.mask, 0, self._prompt, self._device)
            self._prompt = self._call.prompt

    @property
    def _device(self) -> torch.device:
        return next(self.model.module.parameters()).device

    def begin(self, call: Call, read: MutableMapping[Any, int]) -> None:
        """A call of the model begins: note its size, and how far its cache reaches."""
        self.run.note_call(call.args, call.kwargs)
        inputs = next((one for one in (*call.args, *call.kwargs.values()) if isinstance(one, Tensor)), None)
        device = self._device if inputs is None else inputs.device
        past = cached_columns(call.kwargs, read)
        self._call = ModelCall(self.run._size, self.run.mask, past, self._prompt, device)
        if not isinstance(self.run, Alone) and self._prompt is None:
            self._prompt = self._call.prompt = self._call.width
        if (cache := cache_of(call.kwargs)) is not None:
            read[cache] = self._call.width
        for guest in self.guests.values():
            guest.past_layers = False

    def take_in(self, edit: StandingEdit) -> None:
        guest = self.guests[edit] = Guest(edit, self)
        guest.sit_down()
        if guest.goes_ahead:
            self.stay_first()

    def stay_first(self) -> None:
        """Put the taps that go before others again, the first edit's last."""
        for guest in reversed([guest for guest in self.guests.values() if guest.goes_ahead]):
            guest.get_up()
            guest.sit_down()

    def let_go(self, edit: StandingEdit) -> None:
        guest = self.guests.pop(edit, None)
        if guest is not None:
            guest.get_up()

    def answer(self, site: Any, payload: Any) -> None:
        """What edits at the start of a call do, which no hook put now would see."""
        for guest in tuple(self.guests.values()):
            if guest.point.site == site:
                guest.reach(site, payload)

    def end(self) -> None:
        removers, self.removers = self.removers, []
        for remove in removers:
            remove()
        for edit in tuple(self.guests):
            self.let_go(edit)


class Guest:
    """One edit in one run.  To what puts taps it is the run itself; but it wants its own place always, and never waits."""

    def __init__(self, edit: StandingEdit, visit: Visit) -> None:
        self.edit, self.point, self.visit, self.run = edit, edit.point, visit, visit.run
        self.past_layers = False  # for a place that counts only once the last block has run
        self._removers: list[Remover] = []

    @property
    def forward(self) -> Any:
        return self.run.forward

    @property
    def watches(self) -> dict[int, Any]:
        return self.run.watches

    @property
    def goes_ahead(self) -> bool:
        """Whether its tap goes before hooks that are on the module already."""
        return self.point.ahead and self.point.stage == OUTPUT

    def sit_down(self) -> None:
        """Put the taps; the start of a call is answered without one."""
        for point in (self.point.after, self.point):
            if point is not None and point.site != self.visit.model.start.site:
                for prepare in PREPARE:
                    prepare(self.run, point)
                self._removers.append(INSTALLERS[point.stage](self, point))  # type: ignore[arg-type]

    def get_up(self) -> None:
        removers, self._removers = self._removers, []
        for remove in removers:
            remove()

    def wants(self, site: Any) -> bool:
        after = self.point.after
        if after is not None and site == after.site:
            self.past_layers = True
            return False
        return site == self.point.site and (after is None or self.past_layers)

    def reach(self, site: Any, payload: Any, at: Point | None = None) -> None:
        """Do what the edit does, out of sight of whatever watches torch functions here."""
        self.past_layers = False
        with _unwatched():
            stop = Stop(site, payload, self.run.rows)
            new = self.edit.function(stop.hand(self.point), self.visit.call)
            if new is not None:
                stop.assign(self.point, new)
            stop.settle()
            stop.release()


def _unwatched() -> AbstractContextManager[Any]:
    """Out of sight of function modes, where there are any."""
    return torch._C.DisableTorchFunction() if torch._C._len_torch_function_stack() else nullcontext()
