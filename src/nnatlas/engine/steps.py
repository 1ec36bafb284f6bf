"""Generation: a run whose forward is `model.generate`, stopped once per step.

A step is one forward of the model: step 0 reads the prompt, each later one a token.  Inside a step the rules of a trace
hold; what a step has passed is never answered with the next step's value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from greenlet import getcurrent

from nnatlas.bind.points import Point
from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints
from nnatlas.engine.run import Run
from nnatlas.errors import AlreadyRan

STEP_END = "step end"


class Generation(Run):
    """A run over `generate`.  `output` holds the generated ids, prompt included, and `text` what was generated."""

    def __init__(self, model: BoundModel, call: Callable[[], Any], decode: Callable[[Any], Any]) -> None:
        super().__init__(model, call)
        self.step = 0
        self._decode = decode

    def steps(self) -> Iterator[int]:
        """Go through the steps: the body of the loop sees one forward each, and code after the loop always runs.

        >>> with model.generate("Once upon a time", max_new_tokens=20) as run:
        ...     for step in run.steps():
        ...         model.layers[9].layer_output[:, -1] += vector
        """
        start = self.model.root.point("input_ids")
        assert isinstance(start, Point)
        step = 0
        while self._next_step(start):
            self.step = step
            yield step
            step += 1

    def _next_step(self, start: Point) -> bool:
        self._check_open()
        if self._finished:
            return False
        self._leave_stop()
        self._wanted = start.site
        self._taps.wait(self, start)
        self._resume()
        self._taps.drop()
        self._raise_failure()
        self._stands, self._at = None, f"the start of step {self.step + 1}"
        return self._stop is not None

    def _wait_for(self, point: Point) -> None:
        super()._wait_for(point)
        if point.module is not self.model.module:
            self._taps.keep(self.model.module.register_forward_hook(self._end_of_step).remove)

    def _end_of_step(self, *_: Any) -> None:
        if getcurrent() is self.forward and self._wanted is not None:
            self._wanted, self._at = None, f"the end of step {self.step}"
            self.reach(STEP_END, None)

    def _missed(self, point: Point) -> Exception:
        found = super()._missed(point)
        if isinstance(found, AlreadyRan) or self._finished:
            return found
        return complaints.already_ran(point, self._at)

    @property
    def text(self) -> Any:
        """What was generated after the prompt: a string, or a list of strings for several rows."""
        if self.output is None:
            raise complaints.unfinished()
        return self._decode(self.output)
