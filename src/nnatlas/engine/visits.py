"""Standing edits in one run: a guest answers for each of them there, as long as the run lasts.

To what puts taps, a guest is the run itself, except that it always wants its own place and calls the edit's function there
instead of crossing to a body.  A call of the model that nobody opened a run for is a run of its own, `Alone`.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from greenlet import getcurrent
from torch import Tensor, nn

from nnatlas.bind.points import OUTPUT, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine.crossing import Side
from nnatlas.engine.held import Stop
from nnatlas.engine.model_call import ModelCall, cache_of, cached_columns
from nnatlas.engine.payloads import Call
from nnatlas.engine.run import Run
from nnatlas.engine.taps import INSTALLERS, PREPARE, Remover

if TYPE_CHECKING:
    from nnatlas.engine.standing import StandingEdit


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
        self.answering = False  # whether an edit's function is running
        self._call: ModelCall | None = None
        self._prompt: int | None = None  # columns that the run's first call read
        if run.calls > 1:
            self._prompt = 0  # come too late to know: all counts as new
        if run.calls:
            self._catch_up()

    @property
    def call(self) -> ModelCall:
        """The call that is running, with the rows that there are by now."""
        assert self._call is not None, "the model is called before anything in it"
        return self._call.with_rows(self.run.rows) if self.run.growing else self._call

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
        self._call.alike = self.run.growing
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
    """One edit in one run."""

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
        self.visit.answering = True
        try:
            with _unwatched():
                stop = Stop(site, payload, self.run.rows)
                new = self.edit.function(stop.hand(self.point), self.visit.call)
                if new is not None:
                    stop.assign(self.point, new)
                stop.settle()
                stop.release()
        finally:
            self.visit.answering = False


def _unwatched() -> AbstractContextManager[Any]:
    """Out of sight of function modes, where there are any."""
    return torch._C.DisableTorchFunction() if torch._C._len_torch_function_stack() else nullcontext()
