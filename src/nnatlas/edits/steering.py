"""Steering: a direction added to the residual stream at chosen layers and positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nnatlas.edits.contrast import directions_of
from nnatlas.edits.edit import Edit, listed
from nnatlas.edits.where import Positions, Where
from nnatlas.model.asked import Numbers, finite

if TYPE_CHECKING:
    from nnatlas.engine.model_call import ModelCall
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer


@dataclass(eq=False, repr=False)
class Steering(Edit):
    """`scale` times a direction added to the `layer_output` of each layer that has one.  Made by `steer`."""

    vectors: dict[int, Tensor]
    scale: float
    where: Where

    def parts(self) -> list[tuple[str, Function]]:
        return [(f"layers.{layer}.layer_output", partial(self._add, vector)) for layer, vector in self.vectors.items()]

    def _add(self, vector: Tensor, stream: Tensor, call: ModelCall) -> Tensor:
        """`stream` `[batch, seq, hidden_size]` with the direction added, in the stream's own dtype."""
        step = (self.scale * vector.to(stream.device)).to(stream.dtype)
        return self.where.put(call, stream + step, stream)

    def describe(self) -> str:
        norms = ", ".join(f"{abs(self.scale) * float(vector.norm()):.3g}" for vector in self.vectors.values())
        return (
            f"adds {self.scale:g} times a direction (norm {norms}) to the output of {listed(self.vectors, 'layer')}, "
            f"{self.where.words}"
        )


def steer(
    model: StandardizedTransformer,
    vector: Any,
    layers: Numbers = None,
    scale: float = 1.0,
    positions: Positions = None,
    on: str = "both",
) -> Steering:
    """Add `scale` times a steering vector to the stream leaving chosen layers, while the `with` lasts.

    `vector` is what `steering_vector` made, `{layer: direction}`, or one direction `[hidden_size]` for `layers`; `layers`
    of a vector that has several are all of them unless named.  `positions` are counted among each row's real tokens, -1
    the last, whichever side is padded (None: all); `on` is "prompt", "new" (generated tokens) or "both".

    Raises:
        InputError: a layer that the vector does not have; positions or `on` that mean nothing.
        LayoutError: a layer that the model does not have, or a direction of another width.

    >>> with edits.steer(model, vector, layers=9, scale=4, on="new"):
    ...     with model.generate("I think that", max_new_tokens=20) as run:
    ...         pass
    """
    finite(scale=scale)
    return Steering(model, directions_of(model, vector, layers), float(scale), Where(positions, on))
