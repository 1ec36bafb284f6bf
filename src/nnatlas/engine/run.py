"""One run: a forward in a greenlet of its own, and the body that reads and edits it.

The body asks (`read`, `write`), the forward resumes until the place, `reach` stops it there and the body goes on.  Whatever
ends the run (the body's end, `stop`, an exception on either side, Ctrl-C), hooks come off and no activation is kept.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any, Self

import torch
from greenlet import GreenletExit, getcurrent, greenlet

from nnatlas.bind.points import INPUT, OUTPUT, Computed, Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints, order
from nnatlas.engine.crossing import Side, cross
from nnatlas.engine.derived import DERIVED
from nnatlas.engine.held import Handed, Stop, late_edit
from nnatlas.engine.order import Position
from nnatlas.engine.taps import Taps
from nnatlas.errors import NotInRun

PRUNE_AT = 256
"""Handed tensors to remember before those that nobody holds any more are forgotten."""
BLOCK_END = "block end"
"""The site where a wait is given up: the block that should have come to the place has returned."""


class Run:
    """A forward under `with model.trace(...)`.  Users meet it as the model itself, or as `run` in `with ... as run`."""

    def __init__(self, model: BoundModel, call: Callable[[], Any]) -> None:
        self.model, self.output = model, None
        self.rows, self.mask = 1, None  # of the call that is running: batch rows, attention mask
        self._call = call
        self._taps = Taps(model.module, self._note_call)
        self._stop: Stop | None = None
        self._stands: Position | None = None
        self._at = "its start"
        self._wanted: Hashable = None
        self._past: list[Handed] = []
        self._prune_at = PRUNE_AT
        self._failure: BaseException | None = None
        self._open = False
        self.watches: dict[int, Any] = {}  # modules whose torch functions are counted: see interior.operations
        self.forward: greenlet | None = None

    # -- opening and closing ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        complaints.refuse_checkpointing(self.model.module)
        if self._open or self.forward is not None:
            raise NotInRun("a run is opened once: call model.trace(...) again for another")
        self._thread, self._open = threading.get_ident(), True
        self.model.runs.append(self)
        self._body, self._inside = Side(), Side()
        self.forward = greenlet(self._drive)
        self.forward.gr_context = contextvars.copy_context()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._finished:
                self._leave_stop()
                self._resume()
                self._raise_failure()
            if error is None:
                self._check_late_edits()
        finally:
            self._close()

    def stop(self) -> None:
        """Abandon the rest of the forward; the body goes on, but nothing more can be read.

        >>> with model.trace(prompt) as run:
        ...     early = model.layers[2].layer_output
        ...     run.stop()  # layers 3 and up are never computed
        """
        self._check_open()
        self._leave_stop()
        self._abandon()

    @property
    def _finished(self) -> bool:
        return self.forward is None or self.forward.dead

    def _abandon(self) -> None:
        """Unwind the forward, so that its own `with` and `finally` blocks run."""
        if self.forward is not None and not self.forward.dead:
            self.forward.parent = getcurrent()
            self._inside.note()
            self.forward.throw(GreenletExit)
            self._body.restore()
        self._stop = None

    def _close(self) -> None:
        self._open = False
        self._body.note()
        try:
            self._abandon()
        finally:
            self._taps.clear()
            if self in self.model.runs:
                self.model.runs.remove(self)
            self._stop, self._past, self._failure, self.forward, self.mask = None, [], None, None, None
            self.watches.clear()

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
        if isinstance(value, torch.Tensor):
            given = Handed.of_derived(point, value)
            self._past.append(given)
        return value

    def _go_to(self, point: Point) -> Stop:
        """Let the forward run to a point's site, unless it stands there already."""
        if self._stop is None or self._stop.site != point.site:
            if point.after is not None and not order.passed(order.position(self.model, point.after), self._stands):
                self._go_to(point.after)
            self._advance(point)
        assert self._stop is not None
        return self._stop

    def _advance(self, point: Point) -> None:
        asked = order.position(self.model, point)
        if self._finished or order.passed(asked, self._stands):
            raise complaints.already_ran(point, self._at)
        self._leave_stop()
        self._wait_for(point)
        self._resume()
        self._taps.drop()
        self._raise_failure()
        if self._stop is None or self._stop.site != point.site:
            raise self._missed(point)
        self._stands, self._at = order.position(self.model, point), point.name

    def _wait_for(self, point: Point) -> None:
        self._wanted = point.site
        inside = point.block is not None and point.module is not point.block_module
        if inside or (point.block is not None and point.stage not in (INPUT, OUTPUT)):
            self._watch_block(point)
        self._taps.wait(self, point)

    def _watch_block(self, point: Point) -> None:
        """Notice the end of the block, in case the point does not come; learn the block's order the first time."""
        block = self.model.blocks[point.block or 0]
        if not order.known(self.model, point):
            self._taps.keep(order.learn(self, block))

        def give_up(*_: Any) -> None:
            if getcurrent() is self.forward and self._wanted == point.site:
                self._wanted = BLOCK_END
                self._stands, self._at = (
                    Position(order.BLOCKS, block.index or 0, order.END, order.END),
                    f"the end of {block.name}",
                )
                self.reach(BLOCK_END, None)

        self._taps.keep(block.module.register_forward_hook(give_up).remove)

    def _missed(self, point: Point) -> Exception:
        if self._finished:
            self._at = "its end"
        if order.known(self.model, point) and not order.runs_there(self.model, point):
            return complaints.never_reached(point, self._at)
        return complaints.already_ran(point, self._at, sure=point.block is not None)

    # -- crossing over ---------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Let the forward run until it reaches what is wanted, or ends."""
        forward = self.forward
        assert forward is not None
        self._stop = None
        forward.parent = getcurrent()
        self._modes = torch._C._len_torch_function_stack()
        cross(forward, self._body, self._inside, self._modes)

    def _note_call(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember the size and mask of each call of the whole model (a hook on it)."""
        if getcurrent() is self.forward:
            first = args[0] if args else kwargs.get("input_ids")
            first = kwargs.get("inputs_embeds") if first is None else first
            self.rows, self.mask = (1 if first is None else len(first)), kwargs.get("attention_mask")

    def _drive(self) -> None:
        """The forward's side: everything that runs between two stops happens in here."""
        try:
            self.output = self._call()
        except GreenletExit:
            raise
        except BaseException as failure:  # noqa: BLE001  handed to the body, at the line that was waiting
            self._failure = failure

    def keep(self, remover: Callable[[], None]) -> None:
        """Have something taken off the model when the run ends."""
        self._taps.keep_on(remover)

    def wants(self, site: Hashable) -> bool:
        """Whether the body waits for this site (asked by taps, in the forward)."""
        return self._wanted == site

    def reach(self, site: Hashable, payload: Any) -> None:
        """Stop the forward here until the body asks for something else (called by taps, in the forward)."""
        self._wanted = None
        self._stop = Stop(site, payload, self.rows)
        assert self.forward is not None and self.forward.parent is not None
        cross(self.forward.parent, self._inside, self._body, self._modes)

    def _leave_stop(self) -> None:
        """Write back what was edited where the forward stands."""
        stop, self._stop = self._stop, None
        if stop is not None and stop.payload is not None:
            self._past += stop.settle()
        if len(self._past) > self._prune_at:
            self._past = [given for given in self._past if given.alive]
            self._prune_at = max(PRUNE_AT, 2 * len(self._past))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _check_late_edits(self) -> None:
        for given in self._past:
            if given.late():
                raise late_edit(given.point)

    def _check_open(self) -> None:
        if not self._open:
            raise NotInRun(
                "this run is over: values are read inside its `with` block; open another with model.trace(...)"
            )
        if threading.get_ident() != self._thread:
            raise NotInRun("a run belongs to the thread that opened it; open one in this thread")


def current_run(model: BoundModel) -> Run | None:
    """The innermost run open on this model in this thread."""
    for run in reversed(model.runs):
        if run._thread == threading.get_ident():
            return run
    return None
