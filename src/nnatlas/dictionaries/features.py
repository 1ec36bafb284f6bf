"""Features of prompts: how strongly each fires at each token, and the strongest as a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.model.asked import at_least, within
from nnatlas.model.prompts import Prompts, read

if TYPE_CHECKING:
    from nnatlas.dictionaries.dictionary import Dictionary
    from nnatlas.model import StandardizedTransformer

STRONGEST = 20
"""Features shown."""


@dataclass(frozen=True, repr=False)
class FeatureActivations(Shown):
    """`values` `batch seq features`, on the CPU, in float32, zero at padding; made by `dictionary.features`.

    `unexplained` `batch seq` is what the reconstruction misses, |value - reconstruction|², as a share of the variance: the
    mean over real tokens of |value - their mean|².
    """

    values: Tensor
    unexplained: Tensor
    prompts: Prompts
    name: str

    def top(self, k: int = 10, row: int = 0, position: int = -1) -> list[tuple[int, float]]:
        """The features that fire most at one real position of a prompt: number and activation, strongest first."""
        at_least(0, k=k)
        real = self.prompts.real(within(row, len(self.prompts), "row", "", InputError))
        at = real[within(position, len(real), "position", f" of row {row}", InputError)]
        best = self.values[row, at].topk(min(k, self.values.shape[-1]))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(feature, strength) for feature, strength in pairs if strength > 0]

    @property
    def firing(self) -> Tensor:
        """How many features fire at each token, `batch seq` (the L0)."""
        return (self.values > 0).sum(-1)

    def grid(self) -> Grid | Pages:
        """The features that fire most in each prompt, strongest first, by token."""
        sheets = [self._sheet(row) for row in range(len(self.prompts))]
        if len(sheets) == 1:
            return sheets[0]
        return Pages("prompt", dict(zip(map(str, range(len(sheets))), sheets, strict=True)), title=self.name)

    def _sheet(self, row: int) -> Grid:
        found = self.values[row, self.prompts.real(row)]
        strongest = found.amax(0).topk(min(STRONGEST, found.shape[1])).indices
        title, missed = f"features of {self.name}", float(self.unexplained[row, self.prompts.real(row)].mean())
        note = f"variance not explained: {missed:.3f}; features firing a token: {float((found > 0).sum(-1).float().mean()):.1f}"
        rows = Axis("feature", strongest.tolist())
        return Grid(found[:, strongest].T, rows, self.prompts.axis(row), title=title, units="activation", note=note)


def feature_activations(
    dictionary: Dictionary, model: StandardizedTransformer, prompt: Any, *, at: Any = None, **keywords: Any
) -> FeatureActivations:
    """Encode what the dictionary reads, from one forward that stops once everything is there.

    Raises:
        LayoutError: the value is not what the dictionary was made for.
        Unavailable: this model has no such value, with the reason.
    """
    reads, writes = dictionary.place.values(model, at)
    found, prompts = read(model, prompt, [reads, writes], **keywords)
    with torch.no_grad():
        source, real = found[reads], found[writes]
        features = dictionary.encode(source)
        made = dictionary.decode(features, source)
    values = features.float().cpu() * prompts.mask[..., None]
    missed = _unexplained(real.reshape(made.shape).float().cpu(), made.float().cpu(), prompts.mask)
    return FeatureActivations(values, missed, prompts, dictionary.name)


def _unexplained(real: Tensor, made: Tensor, mask: Tensor) -> Tensor:
    """The share of the variance that is missed at each token, `batch seq`."""
    spread = (real - real[mask].mean(0)).square().sum(-1)[mask].mean()
    return (real - made).square().sum(-1) / spread
