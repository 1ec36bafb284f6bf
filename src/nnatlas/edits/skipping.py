"""Skipping layers: what enters a block leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor

from nnatlas.edits.edit import Edit, layer_numbers, listed
from nnatlas.edits.where import Positions, Where
from nnatlas.model.asked import Numbers

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer


@dataclass(eq=False, repr=False)
class LayerSkip(Edit):
    """Blocks whose `layer_output` is their `layer_input`.  Made by `skip_layers`."""

    layers: list[int]
    where: Where

    def parts(self) -> list[tuple[str, Function]]:
        ends = (("layer_input", self._enter), ("layer_output", self._leave))
        return [
            (f"layers.{layer}.{value}", partial(function, layer)) for layer in self.layers for value, function in ends
        ]

    def _enter(self, layer: int, stream: Tensor, call: ModelCall) -> None:
        call.notes[self, layer] = stream

    def _leave(self, layer: int, stream: Tensor, call: ModelCall) -> Tensor:
        return self.where.put(call, call.notes.pop((self, layer)), stream)

    def describe(self) -> str:
        return f"passes {listed(self.layers, 'layer')} by, {self.where.words}"


def skip_layers(
    model: StandardizedTransformer, layers: Numbers, positions: Positions = None, on: str = "both"
) -> LayerSkip:
    """Let the stream pass blocks by unchanged, while the `with` lasts.

    The blocks still compute (and fill the cache), so other positions may attend to what a skipped one would have been.

    >>> with edits.skip_layers(model, [10, 11, 12]):
    ...     logits = model(ids).logits
    """
    return LayerSkip(model, layer_numbers(model, layers), Where(positions, on))
