"""Generation: a run whose forward is `model.generate`, stopped once per step.

A step is one forward of the model: step 0 reads the prompt, each later one a token.  Inside a step the rules of a trace
hold; what a step has passed is never answered with the next step's value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nnatlas.bind.tree import BoundModel
from nnatlas.engine import complaints
from nnatlas.engine.run import Run


class Generation(Run):
    """A run over `generate`.  `output` holds the generated ids, prompt included, and `text` what was generated."""

    def __init__(self, model: BoundModel, call: Callable[[], Any], decode: Callable[[Any], Any]) -> None:
        super().__init__(model, call)
        self.step = 0
        self._shown = 0  # how many calls of the model the body has been shown as a step
        self._decode = decode

    def steps(self) -> Iterator[int]:
        """Go through the steps, one forward of the model each."""
        while self._next_step():
            yield self.step

    def _next_step(self) -> bool:
        """Let the forward run to the start of the next call, unless it stands at the start of one not yet shown."""
        self._check_open()
        if self.finished:
            return False
        start = self.model.start
        if self._stop is None or self._stop.site != start.site or self.calls == self._shown:
            self._set_out(start)
            self._resume()
        self._shown, self.step = self.calls, self.calls - 1
        return self._stop is not None

    def where(self) -> str:
        """Where the forward stands, in words; the end of a call is the end of a step."""
        if self.finished or self.stands is None:
            return super().where()
        at = "its end" if self.stands is self.model.ends[id(self.model.module)] else super().where()
        return at if self.step < 1 else f"{at} (step {self.step})"

    @property
    def text(self) -> Any:
        """What was generated after the prompt: a string, or a list of strings for several rows."""
        if self.output is None:
            raise complaints.unfinished()
        return self._decode(self.output)
