"""Frozen records for the facts: fields by annotation, equality by content.

`dataclasses` would do, were it not for its price at import: it loads `inspect` and compiles a class's methods anew, about
a millisecond each, which is half of what the whole table of families may cost.  Type checkers see a frozen dataclass.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, ClassVar, Self, dataclass_transform

_MISSING: Any = object()


@dataclass_transform(frozen_default=True)
class Record:
    """A frozen record; defaults are shared by all records, so they must not be mutable.

    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(2).remade(y=1)
    Point(x=2, y=1)
    """

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063  inspect costs what this file saves
        own = (name for name, kind in annotations.items() if "ClassVar" not in str(kind))
        cls._defaults = cls._defaults | {name: cls.__dict__.get(name, _MISSING) for name in own}
        cls.__match_args__ = tuple(cls._defaults)  # type: ignore[misc, attr-defined]

    def __init__(self, *given: Any, **named: Any) -> None:
        defaults = self._defaults
        values = self.__dict__
        values.update(defaults)
        values.update(zip(defaults, given, strict=False))
        values.update(named)
        if len(values) > len(defaults) or len(given) > len(defaults) or _MISSING in values.values():
            self._refuse(given, named)

    def _refuse(self, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        missing = [name for name, value in self.__dict__.items() if value is _MISSING]
        unknown = [name for name in named if name not in self._defaults]
        raise TypeError(
            f"{type(self).__name__} takes {', '.join(self._defaults)}; missing: {', '.join(missing) or 'none'}, "
            f"unknown: {', '.join(unknown) or 'none'}, in order: {len(given)}"
        )

    def remade(self, **given: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**self.__dict__, **given})

    __replace__ = remade  # for copy.replace

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing in it can change

    def __reduce__(self) -> Any:
        plain = {
            name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in self.__dict__.items()
        }
        return _from_fields, (type(self), plain)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another by .remade({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _from_fields(kind: type[Record], fields: dict[str, Any]) -> Record:
    """A record as it was pickled, where views of mappings are plain mappings."""
    return kind(**fields)
