"""What a caller asks for, checked in words: whole numbers, counts, layers and rows that there are, files that have a name."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nnatlas.errors import AtlasError, InputError, LayoutError

if TYPE_CHECKING:
    from nnatlas.model.transformer import StandardizedTransformer

Numbers = int | Iterable[int] | None


def several(numbers: Any) -> list[Any]:
    """One number, or several, as a list; what is neither is left to `within` to refuse."""
    if isinstance(numbers, str) or (isinstance(numbers, Tensor) and not numbers.ndim):
        return [numbers]
    try:
        return list(numbers)
    except TypeError:  # one number, of Python, numpy or torch
        return [numbers]


def whole(number: Any, noun: str, where: str = "") -> int:
    """A whole number of Python, numpy or torch; `InputError` for anything else."""
    try:
        if isinstance(number, bool):
            raise TypeError
        return operator.index(number)
    except TypeError:
        raise InputError(f"{noun} {number!r}{where}: {noun}s are named by whole numbers") from None


def within(number: Any, count: int, noun: str, where: str = "", error: type[AtlasError] = LayoutError) -> int:
    """A number counted from the end if negative; `error` if there is none of it, `InputError` if it is no number."""
    at = whole(number, noun, where)
    if not -count <= at < count:
        raise error(f"{noun} {at} of {count}{where}: they are numbered 0 to {count - 1}")
    return at % count


def layers_of(model: StandardizedTransformer, layers: Numbers, error: type[AtlasError] = InputError) -> list[int]:
    """Numbers of blocks from 0, in the order given: of one, of several (from the end if negative), or of all for None.

    Raises:
        InputError: none is named, or what is named is no number, or (by default) no block.
    """
    if layers is None:
        return list(range(model.num_layers))
    found = [within(layer, model.num_layers, "layer", "", error) for layer in several(layers)]
    if not found:
        raise InputError(f"no layer is named: give numbers 0 to {model.num_layers - 1}, or None for all")
    return found


def at_least(least: int, **given: Any) -> None:
    """`InputError` unless each of these is a whole number so large: `at_least(1, length=length)`."""
    for name, number in given.items():
        try:
            enough = operator.index(number) >= least
        except TypeError:
            enough = False
        if not enough:
            raise InputError(f"{name}={number!r}: give a whole number, {least} or more")


def finite(**given: Any) -> None:
    """`InputError` unless each of these is a finite number: `finite(scale=scale)`."""
    for name, number in given.items():
        try:
            fine = math.isfinite(number)
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise InputError(f"{name}={number!r}: give a finite number")


def value_names(values: Any) -> list[str]:
    """One name or pattern of values, or several, as a list; `InputError` for anything else."""
    names = [values] if isinstance(values, str) else values
    if isinstance(names, Iterable) and (found := list(names)) and all(isinstance(one, str) for one in found):
        return found
    raise InputError(f"{values!r} names no value: give a name or pattern such as 'layers.*.layer_output', or several")


def named_path(path: Any, what: str) -> Path:
    """A path as it was given; `InputError` for what is none."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise InputError(f"{path!r} is no path of {what}: give one, as a text or a pathlib.Path")
    return Path(path)
