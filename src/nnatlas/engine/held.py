"""Tensors handed to the body, and what became of them: noticed edits, write-back, and edits that came too late."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from nnatlas import layouts
from nnatlas.bind.points import INPUT, Computed, Point
from nnatlas.errors import AlreadyRan, AtlasError, LayoutError, NeverReached, ReadOnly

PRUNE_AT = 256
"""Handed tensors to remember before those that nobody holds any more are forgotten."""


def _version(tensor: Any) -> int | None:
    """The counter of in-place writes; inference tensors keep none."""
    return None if not isinstance(tensor, Tensor) or tensor.is_inference() else tensor._version


class Stop:
    """The forward, paused at one site, and the values handed out there."""

    __slots__ = (
        "batch",
        "growing",
        "handed",
        "payload",
        "retired",
        "site",
    )  # retired: replaced by another tensor at this very stop

    def __init__(self, site: Any, payload: Any, batch: int, growing: bool = False) -> None:
        self.site, self.payload, self.batch, self.growing = site, payload, batch, growing
        self.handed: dict[str, Handed] = {}
        self.retired: list[Handed] = []

    def hand(self, point: Point) -> Any:
        """The value of a point of this site; the same tensor each time, unless what it was taken from was replaced."""
        given, native = self.handed.get(point.name), self.payload.get(point.item)
        if given is not None and given.native is native:
            return given.value
        if native is None and point.stage != INPUT:
            raise NeverReached(f"{point.name}: {point.path or 'the model'} gives none in this call")
        for other in self.handed.values():  # what was written into a copy of the same tensor is to be seen here
            if other.item == point.item and other.edited(self.batch):
                other.settle(self.payload, self.batch)
        if given is not None:
            self.retired.append(given)
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
        fitted = _fitted(point, value, self._shape(point, native), native, self.growing)
        for other in self.handed.values():  # earlier edits first: this one comes on top of them
            if other.item == point.item:
                other.settle(self.payload, self.batch)
        native = self.payload.get(point.item)
        with _ordinary(native):
            self.payload.set(point.item, point.codec.put(native, fitted, self.batch))
        if self.growing and point.layout.axes[:1] == ("batch",):
            self.batch = len(fitted)
        if given is not None:
            self.retired.append(given)
        self.handed[point.name] = Handed(point, self.payload.get(point.item), self.batch)

    def _shape(self, point: Point, native: Tensor) -> torch.Size:
        given = self.handed.get(point.name)
        return (given.value if given is not None else point.codec.take(native, self.batch)).shape

    def keep(self, point: Computed, value: Tensor) -> None:
        """Hold a derived tensor until the forward goes on, so that a write into it does not go unnoticed."""
        self.retired.append(Handed(point, value, self.batch))

    def settle(self) -> bool:
        """Give the forward what was edited here; whether anything was."""
        for given in self.retired:
            given.refuse_if_derived()
        edited = False
        for given in self.handed.values():
            if not given.untouched(self.payload):
                edited |= given.settle(self.payload, self.batch)
        return edited

    def release(self) -> list[Handed]:
        """Let go of the tensors; what is left is enough to notice late edits."""
        given = [*self.handed.values(), *self.retired]
        for one in given:
            one.release()
        return given


class Handed:
    """One value in the body's hands."""

    __slots__ = ("below", "native", "point", "ref", "value", "version")  # below: the native tensor's version

    def __init__(self, point: Point | Computed, native: Any, batch: int) -> None:
        self.point, self.native, self.value = point, native, native
        self.ref: weakref.ref[Tensor] | None = None
        if isinstance(point, Point) and not point.codec.plain and isinstance(native, Tensor):
            with _ordinary(native):  # else the body could not write into it once its inference mode is over
                self.value = point.codec.take(native, batch)
        self.version, self.below = _version(self.value), _version(native)

    @property
    def item(self) -> Any:
        """Which piece of the payload it was taken from."""
        return self.point.item if isinstance(self.point, Point) else None

    def untouched(self, payload: Any) -> bool:
        """Whether it certainly is what the forward goes on with, as it was: nearly always, and quickly seen."""
        value = self.value
        plain = self.version is not None and value is self.native and value._version == self.version
        return plain and value is payload.get(self.item)

    def settle(self, payload: Any, batch: int) -> bool:
        """Write back what was edited since the last time, and keep gradients flowing through what asks for them."""
        if not isinstance(self.value, Tensor):
            return False
        point, edited = self.point, self.edited(batch)
        assert isinstance(point, Point)
        if edited and point.read_only:
            raise late_or_read_only(point)
        if not point.codec.plain or self.native is not payload.get(point.item):
            self._put_back(point, payload, batch, edited)
        if edited:
            self.version, self.below = _version(self.value), _version(self.native)
        return edited

    def refuse_if_derived(self) -> None:
        """A derived tensor: nothing is written back, so any write into it is an error."""
        if isinstance(self.point, Computed) and self.version != _version(self.value):
            raise late_or_read_only(self.point)

    def _put_back(self, point: Point, payload: Any, batch: int, edited: bool) -> None:
        codec, native = point.codec, payload.get(point.item)
        with _ordinary(native):
            if edited and not self._aliases(native):
                payload.set(point.item, codec.put(native, self.value, batch))
            elif self.value.requires_grad and not codec.plain and not edited and self._holds(native, batch):
                payload.set(point.item, codec.rejoin(native, self.value, batch))

    def _holds(self, native: Any, batch: int) -> bool:
        """Whether the value still says what the forward goes on with, also where another edit has replaced the tensor."""
        assert isinstance(self.point, Point)
        return native is self.native or torch.equal(self.point.codec.take(native, batch), self.value)

    def edited(self, batch: int) -> bool:
        """Whether the body wrote into the value.

        The counter of writes does not see those through `.data` or numpy; into a view they land all the same, in numbers
        of the value's own they are looked for.
        """
        if not isinstance(self.value, Tensor):
            return False
        if self.version is not None and self.value._version != self.version:
            return True
        return self._reads_otherwise(batch)

    def _reads_otherwise(self, batch: int) -> bool:
        """Whether the value's own numbers are no longer those of the native tensor, which itself is as it was."""
        codec = self.point.codec if isinstance(self.point, Point) else None
        if codec is None or not (codec.computed or codec.separate or self.version is None):
            return False
        if self.below != _version(self.native) or self.value.is_meta or _wraps(self.value):
            return False
        return not torch.equal(self.value, codec.take(self.native, batch))

    def _aliases(self, native: Any) -> bool:
        """Whether the value is a view of what the forward goes on with, so that a write in place has landed."""
        if self.value.requires_grad or not isinstance(native, Tensor):
            return False
        return _storage(self.value) == _storage(native)

    def release(self) -> None:
        """Hold the tensor only weakly from now on."""
        self.ref = weakref.ref(self.value) if isinstance(self.value, Tensor) else None
        self.native = self.value = None

    @property
    def alive(self) -> Tensor | None:
        """The tensor, if anybody still holds it."""
        return None if self.ref is None else self.ref()

    def late(self) -> bool:
        """Whether the tensor was written into after the forward had gone on."""
        tensor = self.alive
        return tensor is not None and self.version is not None and tensor._version != self.version


class Past:
    """Every tensor handed out where the forward no longer stands, as long as anybody holds it."""

    __slots__ = ("_given", "_prune_at")

    def __init__(self) -> None:
        self._given: list[Handed] = []
        self._prune_at = PRUNE_AT

    def settle(self, stop: Stop) -> None:
        """Write back what was edited at a stop the forward is about to leave, and remember what was handed out there."""
        edited = stop.settle()
        if edited:
            self._forgive(stop)
        self._given += stop.release()
        if len(self._given) > self._prune_at:
            self._given = [given for given in self._given if given.alive is not None]
            self._prune_at = max(PRUNE_AT, 2 * len(self._given))

    def _forgive(self, stop: Stop) -> None:
        """An edit that reaches the model may go through a tensor handed out before: one block's output is the next one's input."""
        landed = {_storage(given.value) for given in stop.handed.values() if isinstance(given.value, Tensor)}
        for given in (*self._given, *stop.retired):
            tensor = given.value if given.value is not None else given.alive
            if isinstance(tensor, Tensor) and _storage(tensor) in landed:
                given.version = _version(tensor)

    def refuse_late_edits(self) -> None:
        for given in self._given:
            if given.late():
                raise late_edit(given.point)

    def clear(self) -> None:
        self._given = []


def _storage(tensor: Tensor) -> int:
    """Where a tensor's numbers are."""
    while _wraps(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage().data_ptr()


def _wraps(tensor: Tensor) -> bool:
    """Whether a tensor is one of `torch.func`'s, which wraps another that has the numbers."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


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


def _fitted(point: Point, value: Any, shape: torch.Size, native: Tensor, growing: bool = False) -> Tensor:
    """The assigned value as a tensor of the right shape; numbers fill, anything else must fit exactly.

    In a growing run the batch is free, and the positions where they come next.
    """
    if isinstance(value, int | float):
        _refuse_loss(point, torch.tensor(value), native)
        return torch.full(shape, value, dtype=native.dtype, device=native.device)
    if not isinstance(value, Tensor):
        raise LayoutError(f"{point.name} takes a tensor {point.layout} or a number, not a {type(value).__name__}")
    if growing and point.layout.axes[:1] == ("batch",) and value.ndim == len(shape):
        free = 1 + (point.layout.axes[1:2] == ("seq",))
        shape = torch.Size((*value.shape[:free], *shape[free:]))
    if value.shape != shape:
        why = layouts.fault(point.layout, value.shape, point.sizes) or f"the tensor is {list(value.shape)}"
        raise LayoutError(
            f"{point.name} is {list(shape)} in this run; {why}. To broadcast, write into it: model.{point.name}[:] = ..."
        )
    _refuse_loss(point, value, native)
    return value.to(device=native.device, dtype=native.dtype)


def _refuse_loss(point: Point, value: Tensor, native: Tensor) -> None:
    """Refuse numbers that the forward's own dtype would cut: fractions where it has whole ones, imaginary parts."""
    fraction = value.is_floating_point() and not native.is_floating_point() and not native.is_complex()
    if (value.is_complex() and not native.is_complex()) or (
        fraction and not value.is_meta and bool(value.frac().any())
    ):
        raise LayoutError(f"{point.name} holds {native.dtype}, which cannot take these numbers of {value.dtype}")


def _ordinary(native: Any) -> AbstractContextManager[Any]:
    """Out of the body's inference mode where the forward is not in one: it could not save such tensors for backward."""
    inside = isinstance(native, Tensor) and native.is_inference()
    return nullcontext() if inside or not torch.is_inference_mode_enabled() else torch.inference_mode(False)
