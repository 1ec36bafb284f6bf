"""One run: a forward in a greenlet of its own, and the body that reads and edits it.

The body asks (`read`, `write`), the forward resumes until the place, `reach` stops it there and the body goes on.  Whatever
ends the run (the body's end, `stop`, an exception on either side, Ctrl-C), hooks come off and no activation is kept.
"""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any, Self

import torch
from greenlet import GreenletExit, getcurrent, greenlet

from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints, order
from nnatlas.engine.crossing import Side, cross
from nnatlas.engine.derived import DERIVED
from nnatlas.engine.held import Past, Stop
from nnatlas.engine.taps import Taps
from nnatlas.errors import NotInRun

NEW, OPEN, CLOSED = "not open yet", "open", "over"
_HERE: contextvars.ContextVar[tuple[weakref.ref[Run], ...]] = contextvars.ContextVar("runs opened here", default=())
"""Runs that this thread, or this asyncio task or gevent greenlet in it, has opened; the innermost last."""


class Run:
    """A forward under `with model.trace(...)`.  Users meet it as the model itself, or as `run` in `with ... as run`."""

    images = False  # whether the call was handed any: whoever opens the run says so
    images_first = False  # whether their tower ran before the model's own forward began, as in a generation
    ids: Any = None  # what the call of the model that is running was given to read

    def __init__(self, model: BoundModel, call: Callable[[], Any], growing: bool = False) -> None:
        self.model, self.output = model, None
        self.growing = growing  # whether an assignment may change the number of rows
        self.calls, self.depth = 0, 0  # of the whole model so far; how many run inside one another (a hook may call it)
        self._size = [1, 0]  # batch and seq of the one that is running
        self.mask: Any = None  # its attention mask
        self.state, self.ended_by = NEW, ""
        self.stands: Point | None = None  # where the forward stopped last; None before its start
        self.lessons: dict[int | None, order.Lesson] = {}  # by block; None: outside the blocks
        self.watches: dict[int, Any] = {}  # modules whose torch functions are counted: see interior.operations
        self.forward: greenlet | None = None
        self._call: Callable[[], Any] | None = call
        self._taps = Taps(model)
        self._stop: Stop | None = None
        self._wanted: Point | None = None
        self._past = Past()
        self._failure: BaseException | None = None

    # -- opening and closing ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self.state is not NEW:
            raise NotInRun("a run is opened once: call model.trace(...) again for another")
        complaints.refuse_checkpointing(self.model.module)
        self._thread = threading.get_ident()
        self._body, self._inside = Side(), Side()
        _HERE.set((*_HERE.get(), weakref.ref(self)))
        self.forward = greenlet(self._drive)
        self.forward.gr_context = contextvars.copy_context()
        if self.model.standing is not None:
            self.model.standing.welcome(self)
        self.state = OPEN
        self.model.runs.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self.state is OPEN:
                if not self.finished:
                    self._leave_stop()
                    self._resume()
                self._past.refuse_late_edits()
        finally:
            self._close()

    def begin_with(self, prepare: Callable[[], None]) -> None:
        """Have something done in the forward's greenlet before the model is called."""
        call = self._call
        assert call is not None

        def prepared() -> Any:
            prepare()
            return call()

        self._call = prepared

    def stop(self) -> None:
        """Abandon the rest of the forward; the body goes on, but nothing more can be read."""
        self._check_open()
        self._leave_stop()
        self._abandon()
        self.ended_by = "run.stop()"

    @property
    def size(self) -> list[int]:
        """Batch and seq of the call that is running; begins the first."""
        if not self.calls and not self.finished:
            self._go_to(self.model.start)
        return list(self._size)

    @property
    def rows(self) -> int:
        """Batch rows of the call that is running."""
        return self._size[0]

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to compute."""
        return self.forward is None or self.forward.dead

    def _abandon(self) -> None:
        """Unwind the forward, so that its own `with` and `finally` blocks run.

        From another thread (which closes a generator, perhaps) that cannot be: greenlet does it, once its own is at it again.
        """
        forward, self._stop = self.forward, None
        if forward is not None and not forward.dead and threading.get_ident() == self._thread:
            forward.parent = getcurrent()
            cross(lambda: forward.throw(GreenletExit), self._body, self._inside)

    def _close(self) -> None:
        self.state = CLOSED
        try:
            self._abandon()
        finally:
            self._taps.clear()
            if self in self.model.runs:
                self.model.runs.remove(self)
            _HERE.set(tuple(known for known in _HERE.get() if known() not in (self, None)))
            self.forward = self.mask = self.ids = self._call = self._failure = self._wanted = self.stands = (
                self._stop
            ) = None
            self._past.clear()
            self.watches.clear()
            self.lessons.clear()

    # -- what the body does ----------------------------------------------------------------------------------------

    def read(self, point: Point | Computed) -> Any:
        """The value at a point: the live tensor, as soon as the forward has computed it."""
        self._check_open()
        if isinstance(point, Computed):
            return self._compute(point)
        return self._go_to(point).hand(point)

    def write(self, point: Point | Computed, value: Any) -> None:
        """Go to a point and let the forward continue with `value` there."""
        self._check_open()
        if point.read_only or isinstance(point, Computed):
            raise complaints.read_only(point)
        self._go_to(point).assign(point, value)

    def _compute(self, point: Computed) -> Any:
        needs, compute = DERIVED[point.function]
        value = compute(self, point, *(self.read(part) for part in needs(point)))
        if isinstance(value, torch.Tensor) and self._stop is not None:
            self._stop.keep(point, value)
        return value

    def _go_to(self, point: Point) -> Stop:
        """Let the forward run to a point's site, unless it stands there already."""
        stop = self._stop
        if stop is not None and stop.site == point.site:
            return stop
        if point.after is not None and not order.passed(self, point.after):
            self._go_to(point.after)
        return self._advance(point)

    def _advance(self, point: Point) -> Stop:
        stood = self.stands
        if self.finished or order.passed(self, point):
            raise complaints.already_ran(point, self.where())
        self._set_out(point)
        self._resume()
        if self._stop is None or self._stop.site != point.site:
            raise complaints.missed(point, self.where(), order.verdict(self, point, stood))
        return self._stop

    def _set_out(self, point: Point) -> None:
        """Put the tap for a point, and give the forward what was edited where it stands."""
        self._wanted = point
        try:
            order.attend(self, point)
            self._taps.wait(self, point)
            self._leave_stop()
        except BaseException:
            self._wanted = None
            self._taps.drop()
            raise

    def where(self) -> str:
        """Where the forward stands, in words."""
        if self.finished:
            return f"its end, by {self.ended_by}" if self.ended_by else "its end"
        return "its start" if self.stands is None else self.stands.name

    # -- crossing over ---------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Let the forward run until it reaches what is wanted, or ends; its failure is raised here."""
        forward = self.forward
        assert forward is not None
        forward.parent = getcurrent()
        try:
            cross(forward.switch, self._body, self._inside)
        finally:
            self._wanted = None
            self._taps.drop()
        failure, self._failure = self._failure, None
        if failure is not None:
            self.ended_by = f"{type(failure).__name__}: {failure}"
            try:
                raise failure
            finally:
                failure = None  # a traceback whose frame holds its own error would keep the forward's tensors alive

    def _drive(self) -> None:
        """The forward's side: everything that runs between two stops happens in here."""
        assert self._call is not None
        self._inside.restore()
        try:
            self.output = self._call()
        except GreenletExit:
            raise
        except BaseException as failure:  # noqa: BLE001  handed to the body, at the line that was waiting
            self._failure = failure

    # -- what the forward's side asks and tells ----------------------------------------------------------------------

    def wants(self, site: Hashable) -> bool:
        """Whether the body waits for this site (asked by taps, as the forward comes by it)."""
        if self.depth > 1:
            return False
        for lesson in self.lessons.values():
            lesson.note(site)
        return self._wanted is not None and self._wanted.site == site

    def misses(self, end: Point) -> bool:
        """Whether the body waits in vain: what it waits for lies in the call that is just ending."""
        wanted = self._wanted
        if wanted is None or wanted.site == end.site or self.depth > 1:
            return False
        return wanted.block == end.block if end.block is not None else not self.starts_call(wanted)

    def starts_call(self, point: Point) -> bool:
        """Whether a point is where a call of the whole model begins."""
        return point.site == self.model.start.site

    def reach(self, site: Hashable, payload: Any, at: Point | None = None) -> None:
        """Stop the forward here until the body asks for something else (called by taps, in the forward)."""
        self.stands, self._wanted = at or self._wanted, None
        self._stop = Stop(site, payload, self.rows, self.growing)
        assert self.forward is not None and self.forward.parent is not None
        cross(self.forward.parent.switch, self._inside, self._body)

    def keep(self, remover: Callable[[], None]) -> None:
        """Have something taken off the model when the run ends."""
        self._taps.keep(remover)

    def begin_lesson(self, block: int | None, lesson: order.Lesson) -> None:
        self.lessons[block] = lesson
        self.keep(lesson.end)
        lesson.begin()

    def note_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember the size and mask of the call of the whole model that begins."""
        self.ids = first = args[0] if args else kwargs.get("input_ids")
        first = kwargs.get("inputs_embeds") if first is None else first
        self._size = [1, 0] if first is None else list(first.shape[:2])
        self.mask = kwargs.get("attention_mask")

    def _leave_stop(self) -> None:
        """Write back what was edited where the forward stands."""
        stop, self._stop = self._stop, None
        if stop is not None:
            self._past.settle(stop)
            self._size[0] = stop.batch
            if stop.site == self.model.start.site:
                self.note_call(stop.payload.args, stop.payload.kwargs)

    def _check_open(self) -> None:
        if self.state is not OPEN:
            raise complaints.not_open(self.state is NEW)
        if threading.get_ident() != self._thread:
            raise NotInRun("a run belongs to the thread that opened it; open one in this thread")
        if getcurrent() is self.forward:
            raise NotInRun("this is the run's own forward (a hook of yours, perhaps): values are read in the body")


def current_run(model: BoundModel) -> Run | None:
    """The innermost run open on this model: of those opened here (see `_HERE`), else in this thread."""
    thread = threading.get_ident()
    for known in reversed(_HERE.get()):
        run = known()
        if run is not None and run.model is model and run.state is OPEN and run._thread == thread:
            return run
    return next((run for run in reversed(tuple(model.runs)) if run._thread == thread), None)
