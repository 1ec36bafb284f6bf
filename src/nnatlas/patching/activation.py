"""Activation patching: put a value of one prompt's run into the other's, place by place, and see what comes out.

Denoising puts the clean run's values into the corrupted run: what suffices to bring the clean answer back?  Noising puts
the corrupted run's into the clean one: what is needed for it?  (Meng et al. 2022, "Locating and editing factual
associations in GPT"; Heimersheim and Nanda 2024, "How to use and interpret activation patching".)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnatlas.patching.metrics import Judge
from nnatlas.patching.result import Patching
from nnatlas.patching.situation import Situation
from nnatlas.patching.study import Asked, Found, study
from nnatlas.patching.ways import PLAIN, WAYS, Way, run_sweep

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def activation_patching(
    model: StandardizedTransformer,
    clean: Any,
    corrupted: Any,
    value: str = "layer_output",
    over: str | Sequence[str] = "layer x position",
    metric: Asked = "logit_difference",
    *,
    direction: str = "denoise",
    plain: bool = False,
) -> Patching:
    """Patch a value in every place of a grid, exactly: each number is that of a whole forward with this one patch.

    Only what a patch can change is computed (see `nnatlas.patching.ways`); where a model's structure forbids that, more
    is, and the result's `note` says why.

    Args:
        model: any model that `nnatlas.load` made.
        clean, corrupted: a prompt each, or a list each, in any form that `model.trace` takes; the two prompts of a pair
            have equally many tokens, and all pairs do where positions are an axis.  Pairs of one length share forwards.
        value: what is patched, a value of blocks: `"layer_output"`, `"layer_input"`, `"attention_output"`,
            `"mlp_output"`, `"attention_premix"` (each head's output before the output projection), ...
        over: the axes of the grid: `"layer x position"`, `"layer x head"`, `"layer x position x head"`, `"layer"`.
        metric: `"logit_difference"`, `"probability"` or `"kl"`; one of `nnatlas.patching.metrics` with its answers; or a
            function from logits `[rows, vocab_size]` at the last position to `[rows]`.
        direction: `"denoise"`, clean values into the corrupted run, or `"noise"`, the other way round.
        plain: run whole forwards also where a quicker way would do.

    Raises:
        InputError: prompts of unequal length, an answer of several tokens, a value or axis that is not there.
        Unavailable: the family has no such value; with its reason.

    Example:
        >>> found = activation_patching(model, "The Louvre is in the city of", "The Acropolis is in the city of")
        >>> found.normalised.shape  # pairs, layers, positions; 0 is the corrupted prompt, 1 the clean one
        torch.Size([1, 30, 8])
    """
    ready = study(model, (clean, corrupted), value, over, metric, direction)
    return ready.run(_Sweeping((PLAIN,) if plain else WAYS))


class _Sweeping:
    """Sweeps group after group of pairs; a way that failed on one is not tried on the next."""

    def __init__(self, ways: tuple[Way, ...]) -> None:
        self.ways = ways
        self.reasons: tuple[str, ...] = ()

    def __call__(self, situation: Situation, judge: Judge) -> Found:
        numbers, way, reasons = run_sweep(situation, judge, self.ways)
        self.ways = self.ways[self.ways.index(way) :]
        self.reasons = (*self.reasons, *reasons)
        note = f"{way.words}, because {'; '.join(self.reasons)}" if self.reasons else ""
        return Found(numbers, way.words, note)
