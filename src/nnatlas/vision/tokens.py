"""The image's tokens of one prompt with one picture, and the rows and columns that they make on it."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from nnatlas.errors import InputError, LayoutError
from nnatlas.model.pictures import listed, opened


def only_picture(pictures: Any) -> Any:
    """The one picture, handed in alone or in a list, in any form that `images=` takes; as a Pillow image."""
    given = listed(pictures)
    if len(given) != 1:
        raise InputError(f"one prompt with one picture, please: got {len(given)}")
    return opened(given[0])


def within(number: int, count: int, noun: str) -> int:
    """A place counted from 0, or from the end where it is negative; `InputError` says which there are."""
    if not -count <= number < count:
        raise InputError(
            f"{noun} {number} of {count}: they are numbered 0 to {count - 1}, or -1 to {-count} from the end"
        )
    return number % count


def on_grid(amounts: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """One number for each image token, as `[rows, columns]`: a square unless `grid` says otherwise.

    Errors: `LayoutError` where the tokens are not that many, such as a picture that was cut into tiles.
    """
    count = len(amounts)
    side = math.isqrt(count)
    rows, columns = grid or (side, side)
    if rows * columns != count:
        asked = f"{rows} by {columns}" if grid else "a square"
        raise LayoutError(f"the picture became {count} tokens, which do not make {asked}: say grid=(rows, columns)")
    return amounts.reshape(rows, columns)
