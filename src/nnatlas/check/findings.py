"""What a law says about one value at one place of one model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

HOLDS: Final = "holds"
BROKEN: Final = "broken"
EXCEPTED: Final = "excepted"
"""The row declares that this does not hold here, and why."""
UNPROVEN: Final = "unproven"
"""Nothing here could be compared; other laws still speak about the value."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One law at one place.  `value` is a vocabulary key (or what else was tested), `where` the host, `detail` the sentence.

    `deviation` is how far the two sides were apart, relative to the size of what was compared; None where nothing was measured.
    """

    law: str
    value: str
    where: str
    status: str
    detail: str = ""
    deviation: float | None = None

    @property
    def broken(self) -> bool:
        return self.status == BROKEN

    def excused(self, reason: str) -> Finding:
        """The same finding, declared by the row."""
        return replace(self, status=EXCEPTED, detail=reason)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        apart = "" if self.deviation is None else f" (apart by {self.deviation:.1e})"
        return f"{self.law}: {self.value} at {self.where} {self.status}: {self.detail}{apart}"


def is_number(tensor: Tensor) -> Tensor:
    """Which entries are numbers, not a mask's minus infinity or whatever else stands at the least number."""
    return tensor.abs() < torch.finfo(tensor.dtype).max * 1e-4


def mean_size(tensor: Tensor) -> Tensor:
    """The root mean square of the entries, without those that are put down to the least number.

    Masked scores and barred tokens stand at some -1e38: in a mean with them no difference would be seen.
    """
    numbers = tensor.detach().double()
    if tensor.is_floating_point():
        numbers = numbers[is_number(tensor)]
    return numbers.square().mean().sqrt() if numbers.numel() else numbers.new_zeros(())


def apart(got: Tensor, expected: Tensor) -> float:
    """The largest difference, each relative to the entry's own size plus the root mean square of all entries.

    0 for equal tensors, infinity where shapes differ or only one side has a NaN.
    """
    if got.shape != expected.shape:
        return float("inf")
    if torch.equal(got, expected) or got.numel() == 0:
        return 0.0
    one, other = got.detach().double(), expected.detach().to(got.device).double()
    size = other.abs() + mean_size(expected).to(other)
    ratio = ((one - other).abs() / size.clamp(min=1e-30)).masked_fill(one.isnan() & other.isnan(), 0.0)
    return float(torch.nan_to_num(ratio, nan=float("inf")).max())
