"""The laws by name, in the order in which they are run; each file beside this one adds its own with `@law("name")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from nnatlas.check.findings import Finding

if TYPE_CHECKING:
    from nnatlas.check.trial import Trial

Law = Callable[["Trial"], Iterable[Finding]]

SENTENCES: Final = {
    "shape": "every value has its layout, with the model's own sizes",
    "residual": "what enters a block and what its parts add make what leaves it",
    "chain": "each value equals what its neighbours say",
    "head": "project_on_vocab of the last block's stream is the logits",
    "pure": "reading changes nothing, and neither does writing back a clone",
    "causal": "changing a value changes the logits, in place and by assignment alike, and never those of earlier positions",
    "held": "a tensor handed out is the same after the run as when it was read",
    "gradient": "the logits have a gradient at the value",
    "batch": "a left-padded row equals the prompt alone, and cached generation equals uncached",
    "whole": "every parameter and every number of the config is known to the row or to transformers",
    "clean": "afterwards the model is bit-identical and carries no hook",
}
LAWS: Final[dict[str, list[Law]]] = {name: [] for name in SENTENCES}


def law(name: str) -> Callable[[Law], Law]:
    """Make a function part of a law: it looks at a trial and yields its findings."""

    def register(function: Law) -> Law:
        LAWS[name].append(function)
        return function

    return register
