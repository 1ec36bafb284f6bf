"""Steering vectors from contrast: what the residual stream has at the end of one kind of prompt and not of another.

`mean` is the difference of the means (Turner et al. 2023, "Activation Addition"; Rimsky et al. 2024, "Steering Llama 2 via
Contrastive Activation Addition"); `pca` the direction along which the pairs differ most (Zou et al. 2023, "Representation
Engineering").  Streams are read at each prompt's last token that is not padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, linalg

from nnatlas.edits.edit import layer_numbers
from nnatlas.edits.references import BATCH, at_last_tokens
from nnatlas.edits.store import read, write
from nnatlas.errors import DamagedFile, InputError, LayoutError
from nnatlas.model.asked import Numbers, at_least, within

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


@dataclass(frozen=True, eq=False)
class SteeringVector:
    """A direction `[hidden_size]` of each layer's `layer_output`, float32, by layer.  Made by `steering_vector`.

    Its length is that of the contrast, so that steering with scale 1 moves a stream as far as the two kinds of prompts
    are apart.
    """

    directions: Mapping[int, Tensor] = field(repr=False)
    method: str = "mean"

    def __getitem__(self, layer: int) -> Tensor:
        if layer not in self.directions:
            raise InputError(
                f"this steering vector has no layer {layer}; it has {', '.join(map(str, self.directions))}"
            )
        return self.directions[layer]

    def save(self, path: str | Path) -> None:
        """Write the vector into a safetensors file."""
        write(path, {"directions": self.directions, "method": self.method}, {"edit": type(self).__name__})

    @classmethod
    def load(cls, path: str | Path) -> SteeringVector:
        """The vector that was saved at `path`."""
        about, settings = read(path)
        if about.get("edit") != cls.__name__:
            raise DamagedFile(f"{str(path)!r} holds a {about.get('edit')}: nnatlas.edits.load(path, model) reads it")
        return cls(**settings)

    def __repr__(self) -> str:
        norms = ", ".join(f"{layer}: {float(one.norm()):.3g}" for layer, one in self.directions.items())
        return f"<SteeringVector by {self.method}; norm by layer: {norms}>"


def _mean(positive: Tensor, negative: Tensor) -> Tensor:
    """The difference of the means, `[hidden_size]`."""
    return positive.mean(0) - negative.mean(0)


def _pca(positive: Tensor, negative: Tensor) -> Tensor:
    """The first principal direction of the pairs' differences and their negatives, `[hidden_size]`.

    Taken both ways round the differences have mean zero, so their first direction is the first right singular vector of
    the differences as they are.  It points to the positive side, as long as the pairs' root mean square along it.
    """
    apart = positive - negative
    direction = linalg.svd(apart, full_matrices=False).Vh[0]
    along = apart @ direction
    return direction * along.square().mean().sqrt() * (-1.0 if along.sum() < 0 else 1.0)


METHODS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": _mean, "pca": _pca}


def steering_vector(
    model: StandardizedTransformer,
    positive: Any,
    negative: Any,
    method: str = "mean",
    layers: Numbers = None,
    batch_size: int = BATCH,
) -> SteeringVector:
    """The direction from `negative` to `positive` prompts, at every layer's `layer_output` or at chosen `layers`.

    The prompts are lists of texts (or anything `model.trace` takes, as one batch), read at their last tokens.  For
    `method="pca"` they are pairs, `positive[i]` with `negative[i]`.

    Raises:
        InputError: an unknown method, no prompts, prompts that are the same, or for "pca" lists of unequal length.

    >>> vector = edits.steering_vector(model, ["I love this", "What joy"], ["I hate this", "What a bore"])
    >>> vector[9].shape
    torch.Size([576])
    """
    if method not in METHODS:
        raise InputError(f"method={method!r}: there are {', '.join(METHODS)}")
    at_least(1, batch_size=batch_size)
    names = {f"layers.{layer}.layer_output": layer for layer in layer_numbers(model, layers)}
    ends = [at_last_tokens(model, prompts, names, batch_size) for prompts in (positive, negative)]
    counts = [len(next(iter(found.values()))) for found in ends]
    if method == "pca" and counts[0] != counts[1]:
        raise InputError(f'{counts[0]} positive and {counts[1]} negative prompts: method="pca" takes pairs')
    made = {layer: METHODS[method](ends[0][name].float(), ends[1][name].float()) for name, layer in names.items()}
    if not any(bool(one.any()) for one in made.values()):
        raise InputError(
            "positive and negative prompts end alike at every layer, so there is no direction between them"
        )
    return SteeringVector(made, method)


def directions_of(model: StandardizedTransformer, vector: Any, layers: Numbers) -> dict[int, Tensor]:
    """Directions by layer from a `SteeringVector`, a mapping, or one tensor `[hidden_size]` for the named layers.

    Raises:
        InputError: one tensor without layers, a layer that the vector does not have, or what is no tensor.
        LayoutError: a direction of another width than the stream's.
    """
    if isinstance(vector, Tensor):
        if layers is None:
            raise InputError("one tensor steers at the layers you name: steer(model, vector, layers=[9])")
        vector = dict.fromkeys(layer_numbers(model, layers), vector)
    elif isinstance(vector, Mapping):
        vector = SteeringVector({within(layer, model.num_layers, "layer", ""): one for layer, one in vector.items()})
    elif not isinstance(vector, SteeringVector):
        raise _no_direction(vector)
    if isinstance(vector, SteeringVector):
        chosen = layer_numbers(model, vector.directions if layers is None else layers)
        vector = {layer: vector[layer] for layer in chosen}
    for layer, one in vector.items():
        if not (isinstance(one, Tensor) and one.is_floating_point()):
            raise _no_direction(one)
        if one.is_meta or not bool(one.isfinite().all()):
            raise InputError(
                f"the direction for layer {layer} holds {'no numbers' if one.is_meta else 'what is not finite'}"
            )
        if one.shape != (model.hidden_size,):
            raise LayoutError(
                f"the direction for layer {layer} is {list(one.shape)}, the stream's is [{model.hidden_size}]"
            )
    return dict(vector)


def _no_direction(given: Any) -> InputError:
    shown = f"a tensor of {given.dtype}" if isinstance(given, Tensor) else f"a {type(given).__name__}"
    return InputError(
        f"{shown} is no direction: give what steering_vector made, {{layer: direction}}, or one direction for layers=...; "
        "a direction is a tensor [hidden_size] of floats"
    )
