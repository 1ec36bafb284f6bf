"""Tensors handed to the body, and what became of them: noticed edits, write-back, and edits that came too late."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from nnatlas import layouts
from nnatlas.bind.points import Computed, Point
from nnatlas.errors import AlreadyRan, AtlasError, LayoutError, ReadOnly


def _version(tensor: Any) -> int | None:
    """The counter of in-place writes; inference tensors keep none."""
    return None if not isinstance(tensor, Tensor) or tensor.is_inference() else tensor._version


class Stop:
    """The forward, paused at one site, and the values handed out there."""

    __slots__ = ("batch", "handed", "payload", "site")

    def __init__(self, site: Any, payload: Any, batch: int) -> None:
        self.site, self.payload, self.batch = site, payload, batch
        self.handed: dict[str, Handed] = {}

    def hand(self, point: Point) -> Any:
        """The value of a point of this site; the same tensor each time."""
        given = self.handed.get(point.name)
        if given is None:
            given = self.handed[point.name] = Handed(point, self.payload.get(point.item), self.batch)
        return given.value

    def assign(self, point: Point, value: Any) -> None:
        """Make `value` what the forward goes on with."""
        native = self.payload.get(point.item)
        if not isinstance(native, Tensor):
            self.payload.set(point.item, value)
            return
        given = self.handed.get(point.name)
        if given is not None and value is given.value:  # `value *= 2` assigns what it has just edited in place
            return
        shape = (given.value if given is not None else point.codec.take(native, self.batch)).shape
        fitted = _fitted(point, value, shape, native)
        self.payload.set(point.item, point.codec.put(native, fitted, self.batch))
        self.handed[point.name] = Handed(point, self.payload.get(point.item), self.batch)

    def settle(self) -> list[Handed]:
        """Give the forward what was edited here; the tensors handed out, for the check against late edits."""
        for given in self.handed.values():
            given.settle(self.payload, self.batch)
        return list(self.handed.values())


class Handed:
    """One value in the body's hands."""

    __slots__ = ("native", "point", "ref", "value", "version")

    def __init__(self, point: Point, native: Any, batch: int) -> None:
        self.point, self.native = point, native
        self.value = point.codec.take(native, batch) if isinstance(native, Tensor) else native
        self.version = _version(self.value)

    @classmethod
    def of_derived(cls, point: Computed, value: Tensor) -> Handed:
        """A derived tensor: nothing is written back, so any write into it is an error."""
        given = cls.__new__(cls)
        given.point, given.native, given.value, given.version, given.ref = (
            point,
            None,
            None,
            _version(value),
            weakref.ref(value),
        )
        return given

    def edited(self, batch: int) -> bool:
        """Whether the body wrote into the value."""
        if self.version is not None:
            return self.value._version != self.version
        return isinstance(self.value, Tensor) and not torch.equal(self.value, self.point.codec.take(self.native, batch))

    def settle(self, payload: Any, batch: int) -> None:
        codec, edited = self.point.codec, isinstance(self.value, Tensor) and self.edited(batch)
        if edited and self.point.read_only:
            raise late_or_read_only(self.point)
        if not codec.plain and isinstance(self.value, Tensor):
            if edited and not self._aliases():
                payload.set(self.point.item, codec.put(self.native, self.value, batch))
            elif self.value.requires_grad and payload.get(self.point.item) is self.native:
                rejoin = codec.put if edited else codec.rejoin
                payload.set(self.point.item, rejoin(self.native, self.value, batch))
        self.version = _version(self.value)
        self.ref = weakref.ref(self.value) if isinstance(self.value, Tensor) else None
        self.native = self.value = None

    def _aliases(self) -> bool:
        """Whether the value is a view of the native tensor, so that a write in place has landed."""
        if self.value.requires_grad:
            return False
        return self.value.untyped_storage().data_ptr() == self.native.untyped_storage().data_ptr()

    @property
    def alive(self) -> bool:
        """Whether anybody still holds the tensor."""
        return self.ref is not None and self.ref() is not None

    def late(self) -> bool:
        """Whether the tensor was written into after the forward had gone on."""
        tensor = self.ref() if self.ref is not None else None
        return tensor is not None and self.version is not None and tensor._version != self.version


def late_or_read_only(point: Point | Computed) -> ReadOnly:
    """The error for a write into a tensor that the model does not go on with."""
    return ReadOnly(
        f"{point.name} was changed in place, but the model does not go on with it: {point.read_only}. "
        f"To compute with it, take a copy first: x = model.{point.name}.clone()"
    )


def late_edit(point: Point | Computed) -> AtlasError:
    """The error for a write that came after the forward had passed."""
    if point.read_only:
        return late_or_read_only(point)
    return AlreadyRan(
        f"{point.name} was changed in place after the forward had passed it, so the model never saw the edit. "
        f"Edit it before the next value is read, or compute with a copy: x = model.{point.name}.clone()"
    )


def _fitted(point: Point, value: Any, shape: torch.Size, native: Tensor) -> Tensor:
    """The assigned value as a tensor of the right shape; numbers fill, anything else must fit exactly."""
    if isinstance(value, int | float):
        return torch.full(shape, value, dtype=native.dtype, device=native.device)
    if not isinstance(value, Tensor):
        raise LayoutError(f"{point.name} takes a tensor {point.layout} or a number, not a {type(value).__name__}")
    if value.shape != shape:
        why = layouts.fault(point.layout, value.shape, point.sizes) or f"the tensor is {list(value.shape)}"
        raise LayoutError(
            f"{point.name} is {list(shape)} in this run; {why}. To broadcast, write into it: model.{point.name}[:] = ..."
        )
    return value.to(device=native.device, dtype=native.dtype)
