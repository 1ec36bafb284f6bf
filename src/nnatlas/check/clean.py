"""Clean: after everything, the model is what it was before.

It runs last, so that it speaks for all the runs, edits and gradients of the laws before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnatlas.check.findings import BROKEN, HOLDS, Finding
from nnatlas.check.imprint import Imprint
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial


@law("clean")
def the_model_is_as_it_was(trial: Trial) -> Iterator[Finding]:
    """Parameters and buffers, hooks, flags, modes, attention functions, gradients and open runs, before against after."""
    for what, changed in trial.imprint.differences(Imprint(trial.owner)).items():
        yield Finding("clean", what, "model", BROKEN if changed else HOLDS, changed or "as before")
