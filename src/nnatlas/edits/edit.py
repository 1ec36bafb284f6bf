"""What every edit of this package is: a change that stands on a model inside `with`, that describes itself, and is saved.

A method is a class with its settings as fields and `parts`, the values it edits with a function for each; entering lets
them stand through `model.editing`, the same door that users have.  Numbers of layers, heads and experts are checked when
an edit is made, against the model it is made for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nnatlas.errors import InputError, LayoutError
from nnatlas.model.asked import Numbers, several, within

if TYPE_CHECKING:
    from nnatlas.engine.standing import Function
    from nnatlas.model import StandardizedTransformer

KINDS: dict[str, type[Edit]] = {}
"""Every kind of edit by its class's name, as saved files name it."""


@dataclass(eq=False, repr=False)
class Edit:
    """A change to what a model computes, for as long as its `with` lasts; it may be entered again afterwards.

    It holds around `trace`, `generate`, `collect`, calling the model and transformers' own `generate`.
    """

    model: StandardizedTransformer
    _open: ExitStack | None = field(default=None, init=False)

    def __init_subclass__(cls) -> None:
        KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        parts = self.parts()
        if not parts:
            raise InputError(f"this {type(self).__name__.lower()} would edit nothing: name a layer or a value at least")
        for value, function in parts:  # what the model lacks is said now, not when the edit is entered
            self.model.editing(value, function)

    def parts(self) -> list[tuple[str, Function]]:
        """The values that are edited, each with what is done there."""
        raise NotImplementedError

    def describe(self) -> str:
        """What the edit does, in a sentence."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._open is not None:
            raise InputError(f"this edit stands already: {self.describe()}; make another one to have it twice")
        with ExitStack() as stack:
            for value, function in self.parts():
                stack.enter_context(self.model.editing(value, function, of=self))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        standing, self._open = self._open, None
        if standing is not None:
            standing.close()

    def save(self, path: str | Path) -> None:
        """Write the edit into one file: tensors as safetensors, settings as JSON in its metadata.

        >>> edit.save("formal.safetensors")
        >>> with edits.load("formal.safetensors", model):
        ...     logits = model(ids).logits
        """
        from nnatlas.edits.store import save

        save(self, path)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"


ByLayer = Mapping[int, Any] | Sequence[tuple[int, int]]


def layer_numbers(model: StandardizedTransformer, layers: Numbers) -> list[int]:
    """Numbers of blocks from 0, in order: of one, of several (from the end if negative), or of all for None."""
    if layers is None:
        return list(range(model.num_layers))
    return sorted({within(layer, model.num_layers, "layer", "") for layer in several(layers)})


def by_layer(model: StandardizedTransformer, chosen: ByLayer, part: str, size: str, what: str) -> dict[int, list[int]]:
    """`{9: [1, 4]}`, `{9: 1}` or `[(9, 1), (9, 4)]` as numbers by layer, each within the layer's own size.

    Raises:
        InputError: neither of these shapes, or nothing named.
        LayoutError: there is no such layer, or no such head, neuron or expert in it.
        Unavailable: the layer has no such part.
    """
    found: dict[int, set[int]] = {}
    for layer, numbers in pairs_of(chosen, what):
        at = within(layer, model.num_layers, "layer", "")
        count = _size_of(model, at, part, size)
        found.setdefault(at, set()).update(within(one, count, what, f" in layer {at}") for one in several(numbers))
    if not any(found.values()):
        raise InputError(f"no {what} is named: give {{layer: [{what}s]}} or pairs of (layer, {what})")
    return {layer: sorted(numbers) for layer, numbers in sorted(found.items())}


def pairs_of(chosen: ByLayer, what: str) -> list[tuple[Any, Any]]:
    """Layers with their numbers, as they were given."""
    try:
        return [(layer, numbers) for layer, numbers in (chosen.items() if isinstance(chosen, Mapping) else chosen)]
    except (TypeError, ValueError):
        raise InputError(f"{chosen!r}: give {{layer: [{what}s]}} or pairs of (layer, {what})") from None


def _size_of(model: StandardizedTransformer, layer: int, part: str, size: str) -> int:
    host = getattr(model.layers[layer], part)
    try:
        return int(getattr(host, size))
    except AttributeError:
        raise LayoutError(f"layer {layer} has no {size.removeprefix('num_')}: see model.support()") from None


def listed(numbers: Iterable[int], noun: str) -> str:
    """`layer 3`, `layers 3, 5 and 9`."""
    shown = [str(number) for number in numbers]
    if len(shown) == 1:
        return f"{noun} {shown[0]}"
    return f"{noun}s {', '.join(shown[:-1])} and {shown[-1]}" if shown else f"no {noun}"


def listed_by_layer(numbers: Mapping[int, Sequence[int]], noun: str) -> str:
    """`heads 1 and 4 of layer 9; head 2 of layer 10`."""
    return "; ".join(f"{listed(own, noun)} of layer {layer}" for layer, own in numbers.items())
