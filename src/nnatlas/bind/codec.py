"""Between a native tensor and a value: split and reorder axes, scale; and back again when the value was edited.

`take` never copies unless a scale, `copied` or `shared` asks for it: a split or a reorder is a view, so an edit in place
lands by itself.  `put` builds a fresh native tensor, never writes into the old one, which others may hold; only a `shared`
place, which the forward reads twice, is written in place, and therefore handed out as a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nnatlas.errors import RowDoesNotFit
from nnatlas.places import Pattern

Scale = Callable[[], "float | Tensor"]
TOKENS = ("batch", "seq")  # a split that has nothing to do where the model keeps the two apart already
LEAST = 1e-37
THROUGH: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "exp": (torch.exp, lambda value: value.clamp(min=LEAST).log()),
    "sigmoid": (torch.sigmoid, lambda value: torch.logit(value, eps=1e-6)),
}
"""A function that a cell may name, and the way back: a decay of 0 becomes one of `LEAST`, whose logarithm is finite."""


@dataclass(slots=True)
class View:
    """A pattern made ready: the steps that turn a native tensor into the layout's axes, all of them views.

    The steps are taken in this order, those that a pattern does not need left out.  With 2 rows, 6 positions, 4 heads of 16,
    and 2 heads for keys and for values:

        batch seq (num_heads head_dim | ...) -> 0     narrow      [2, 6, 128] -> [2, 6, 64]         one part of a fused output
        batch seq (num_heads 3 head_dim) -> 0         unflatten   [2, 6, 192] -> [2, 6, 4, 3, 16]
                                                      select      [2, 6, 4, 3, 16] -> [2, 6, 4, 16]
        batch seq num_heads head_dim                  permute     [2, 6, 4, 16] -> [2, 4, 6, 16]    to the layout's order
    """

    pattern: Pattern
    target: tuple[str, ...]
    sizes: Mapping[str, int]
    _splits: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    _narrow: tuple[int, int, int] | None = None
    _order: tuple[int, ...] = ()
    _select: int | None = None
    _missing: int | None = None  # the axis that a call for one token leaves out
    _joined: bool = False  # the first axis may come in several

    def __post_init__(self) -> None:
        """Work the steps out once, at bind time; `RowDoesNotFit` if the cell's axes are not those of the layout."""
        axes: list[str] = []
        for dim, group in enumerate(self.pattern.groups):
            part = group[self.pattern.pick or 0] if len(group) > 1 else group[0]
            if len(group) > 1:
                lengths = [math.prod(self._size(axis) for axis in one) for one in group]
                chosen = self.pattern.pick or 0
                self._narrow = (dim, sum(lengths[:chosen]), lengths[chosen])
            if len(part) > 1:
                self._splits.append((dim, part))
            if part[0].endswith("?"):
                self._missing, part = dim, (part[0][:-1],)
            if part[0].endswith("+"):
                self._joined, part = True, (part[0][:-1],)
            axes += part
        literal = next((at for at, axis in enumerate(axes) if axis.isdigit()), None)
        if literal is not None:
            self._select = literal
            axes.pop(literal)
        if sorted(axes) != sorted(self.target):
            raise RowDoesNotFit(f"the cell's axes ({' '.join(axes)}) are not the layout's ({' '.join(self.target)})")
        self._order = tuple(axes.index(axis) for axis in self.target)

    def _size(self, axis: str) -> int:
        if axis.isdigit():
            return int(axis)
        if axis not in self.sizes:
            raise RowDoesNotFit(f"the size of {axis} is not known here")
        return self.sizes[axis]

    def __call__(self, native: Tensor, batch: int) -> Tensor:
        """The native tensor seen in the layout's axes; `batch` is the call's, for a `(batch seq)` that is one axis."""
        if self._missing is not None and native.ndim < len(self.pattern.groups):
            native = native.unsqueeze(self._missing)
        if self._joined:
            native = native.flatten(0, native.ndim - len(self.pattern.groups))
        apart = self._splits[:1] == [(0, TOKENS)] and native.ndim > len(self.pattern.groups)
        if self._narrow is not None:
            native = native.narrow(self._narrow[0] + apart, *self._narrow[1:])
        for dim, part in reversed(self._splits[apart:]):
            native = native.unflatten(dim + apart, self._lengths(part, batch))
        if self._select is not None:
            native = native.select(self._select, self.pattern.pick or 0)
        return native.permute(self._order)

    def _lengths(self, part: tuple[str, ...], batch: int) -> list[int]:
        """Sizes of one split: at most one may be unknown; of `(batch seq)` the batch is the call's."""
        lengths = [int(axis) if axis.isdigit() else self.sizes.get(axis, -1) for axis in part]
        if lengths.count(-1) > 1 and "batch" in part:
            lengths[part.index("batch")] = batch
        return lengths


class _Pinned(torch.autograd.Function):
    """The native tensor's own numbers, with the gradient sent to the value it was rebuilt from.

    A scaled value divided by its scale again differs from the native tensor in the last bit; reading must change nothing.
    """

    @staticmethod
    def forward(ctx: object, rebuilt: Tensor, native: Tensor) -> Tensor:
        return native.clone()

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


@dataclass(slots=True)
class Codec:
    """How one point turns what the model holds into the value, and back."""

    view: View | None = None
    scales: tuple[tuple[Scale, bool], ...] = ()
    through: str = ""
    copied: bool = False
    shared: bool = False
    plain: bool = field(init=False)
    """The value is the native tensor itself."""

    def __post_init__(self) -> None:
        self.plain = self.view is None and not self.computed and not self.separate

    @property
    def separate(self) -> bool:
        """The value is handed out as a copy, and written back only when it was edited."""
        return self.copied or self.shared

    @property
    def computed(self) -> bool:
        """The value's numbers are not the native ones, but computed from them."""
        return bool(self.scales or self.through)

    def take(self, native: Tensor, batch: int) -> Tensor:
        """The value that a native tensor holds: the tensor itself, a view of it, or a copy where the place says so."""
        value = self._forth(self._seen(native, batch))
        return value.clone() if self.separate and not self.computed else value

    def put(self, native: Tensor, value: Tensor, batch: int) -> Tensor:
        """A native tensor that holds `value`; `native` itself, written in place, where the place is shared.

        Numbers that are still those of the native tensor stay so bit for bit, whatever is divided out again.
        """
        seen = self._seen(native, batch)
        new = self._back(value)
        if self.computed and not value.requires_grad:
            new = torch.where(self._forth(seen) == value, seen, new.to(seen.dtype))
        if self.shared:
            seen.copy_(new)
            return native
        if self.view is None:  # a copy: not the body's tensor, which it may write into later
            return new.to(device=native.device, dtype=native.dtype, copy=not self.computed)
        fresh = native.clone(memory_format=torch.contiguous_format)  # so that every view of it is one
        self.view(fresh, batch).copy_(new)
        return fresh

    def _seen(self, native: Tensor, batch: int) -> Tensor:
        """The native numbers in the layout's axes, still unscaled."""
        return native if self.view is None else self.view(native, batch)

    def _forth(self, seen: Tensor) -> Tensor:
        """From the native numbers to the value's."""
        for scale, divides in self.scales:
            seen = seen / scale() if divides else seen * scale()
        return THROUGH[self.through][0](seen) if self.through else seen

    def _back(self, value: Tensor) -> Tensor:
        """From the value's numbers to the native ones: every step of `_forth` undone, the last one first.

        Scales commute, so their order does not matter here.
        """
        value = THROUGH[self.through][1](value) if self.through else value
        for scale, divides in self.scales:
            value = value * scale() if divides else value / scale()
        return value

    def rejoin(self, native: Tensor, value: Tensor, batch: int) -> Tensor:
        """The native tensor unchanged in number, but computed from `value`, so that gradients pass through it."""
        rebuilt = self.put(native, value, batch)
        return _Pinned.apply(rebuilt, native.detach()) if self.computed else rebuilt
