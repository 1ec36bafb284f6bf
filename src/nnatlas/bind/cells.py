"""From a cell to a point: pick the alternative the live model has, find its module, and make its codec ready.

Everything that can be decided from row and modules is decided here, once for each value and host, when it is first asked
for; a read in a run then follows ready pointers.  Three answers are possible: a `Point` that the forward is stopped at, a
`Computed` that is worked out from other values of the run, or `Unavailable` with the row's reason.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import nn

from nnatlas import layouts
from nnatlas.bind.codec import Codec, Scale, View
from nnatlas.bind.functions import CallItem, namespace, step_of
from nnatlas.bind.paths import above, join, lookup
from nnatlas.bind.points import ATTENTION, CALL, INPUT, OPERATION, OUTPUT, After, Computed, Point
from nnatlas.bind.sizes import setting
from nnatlas.errors import RowDoesNotFit, Unavailable
from nnatlas.places import GROUPS, Absent, Attention, Calls, Derived, Factor, Operation, Place, Same, Side, parse
from nnatlas.values import CACHED, Value

if TYPE_CHECKING:
    from nnatlas.bind.tree import BoundModel, Host

REPORTED = "the forward only reports this tensor and goes on with another"
_ITEMS = {"query": 0, "key": 1, "value": 2, GROUPS: 3}
_STEPS = dict.fromkeys(_ITEMS, "inputs")


def make_point(host: Host, value: Value) -> Point | Computed:
    """The point of `value` at `host`; `Unavailable` with the reason if this host has none."""
    found = resolve(host, value)
    if isinstance(found, Absent):
        raise unavailable(host, value.name, found.reason)
    return point_at(host, value, found)


def point_at(host: Host, value: Value, found: Place, suffix: str = "") -> Point | Computed:
    """The point of `value` if it stood at the place `found`; `suffix` tells it apart from the value's own."""
    if isinstance(found.source, Same):
        return host.point(found.source.value)
    layout = layouts.custom(found.axes) if found.axes else host.owner.laid_out(value.layout, found)
    if isinstance(found.source, Derived):
        source = found.source
        why = value.read_only or f"it is {source.words({})}; edit what it is computed from"
        return Computed(name_of(host, value), value, layout, host.sizes, source.function, source.arguments, host, why)
    module, path = _module(host, found)
    point = Point(
        name=name_of(host, value) + suffix,
        value=value,
        layout=layout,
        sizes=host.owner.sizes_of(host, value),
        place=found,
        module=module,
        path=path,
        above=above(host.owner.module, path),
        codec=_codec(host, value, found, layout),
        block=host.turn,
        block_module=None if host.turn is None else host.owner.blocks[host.turn].module,
        inside=path if host.turn is None else path[len((host.block or host).path) + 1 :],
        ahead=host.owner.in_front,
        read_only=REPORTED if found.reported else value.read_only,
        watched=watched(host, path),
        calling=calling(host, path),
        **_stage(host, found, layout),
    )
    if found.after_layers:
        after = host.owner.blocks[-1].point("layer_output")
        point.after = after if isinstance(after, Point) else None
    return point


def native_point(owner: BoundModel, name: str, path: str, stage: str, item: int | str | None, value: Value) -> Point:
    """A point on any module of the model by its native path, for `.input`, `.output` and derived values."""
    module = lookup(owner.module, path) if path else owner.module
    block = next((block for block in owner.blocks if f"{path}.".startswith(f"{block.path}.")), None)
    return Point(
        name=name,
        value=value,
        layout=value.layout,
        sizes={},
        place=None,
        module=module,
        path=path,
        above=above(owner.module, path),
        stage=stage,
        item=item,
        block=block.index if block else None,
        block_module=block.module if block else None,
        inside=path[len(block.path) + 1 :] if block else path,
        watched=watched(block, path) if block else (),
        calling=calling(block, path) if block else (),
    )


def watched(host: Host, path: str) -> tuple[tuple[nn.Module, frozenset[str]], ...]:
    """The modules at or above `path` whose torch functions some cell of the block counts, and which functions."""
    block = host.block or host
    found = [(module, names) for where, module, names in block.operations if f"{path}.".startswith(f"{where}.")]
    return tuple(found)


def calling(host: Host, path: str) -> tuple[tuple[nn.Module, frozenset[str]], ...]:
    """The modules at or above `path` whose Python calls some cell of the block names, and which functions."""
    block = host.block or host
    return tuple((module, names) for where, module, names in block.calls if f"{path}.".startswith(f"{where}."))


def operations(block: Host, kind: type[Operation | Calls] = Operation) -> list[tuple[str, nn.Module, frozenset[str]]]:
    """Modules of a block that have operation (or call) cells: path, module, and the functions that are counted there."""
    found: dict[str, tuple[nn.Module, set[str]]] = {}
    for host in (block, *block.parts.values()):
        for value in host.values.values():
            place = resolve(host, value)
            if isinstance(place, Place) and isinstance(place.source, kind):
                module, path = _module(host, place)
                named = (place.source.function,) if isinstance(place.source, Operation) else place.source.functions
                found.setdefault(path, (module, set()))[1].update(named)
    return [(path, module, frozenset(names)) for path, (module, names) in found.items()]


def name_of(host: Host, value: Value | str) -> str:
    """What the user types after `model.`, such as `layers[5].self_attn.attention_output`."""
    return join(host.name, value if isinstance(value, str) else value.name)


def unavailable(host: Host, name: str, reason: str) -> Unavailable:
    """The error for an absent value."""
    return Unavailable(f"{name_of(host, name)} is not available: {reason}. See model.support() for what is.", reason)


def resolve(host: Host, value: Value) -> Place | Absent:
    """The first alternative of the value's cell whose modules the live model has."""
    cell, missing = host.cell(value), ""
    for alternative in cell if isinstance(cell, tuple) else (cell,):
        if isinstance(alternative, Absent):
            return alternative
        place = parse(alternative)
        why = _lacks(host, place)
        if why is None:
            return place
        missing = missing or why
    return Absent(missing)


def _lacks(host: Host, place: Place) -> str | None:
    """Why a place cannot be had here, or None."""
    source = place.source
    if isinstance(source, Attention):
        return None if host.kind == "self_attn" else "only an attention has attention points"
    if isinstance(source, Derived):
        return next((why for one in source.arguments if (why := _lacks_argument(host, one)) is not None), None)
    if isinstance(source, Same):
        return None
    found = _find(host, source.path)
    if isinstance(found, Absent):
        return found.reason
    if isinstance(source, Calls) and not any(namespace(found[0], name) is not None for name in source.functions):
        return f"{type(found[0]).__name__} calls no {' or '.join(source.functions)}"
    return None


def _lacks_argument(host: Host, argument: str) -> str | None:
    """Why what a value is computed from cannot be had here, or None."""
    if ">" in argument:
        return _lacks(host, parse(argument))
    found = resolve(host, host.values[argument]) if argument in host.values else None
    return found.reason if isinstance(found, Absent) else None


def _find(host: Host, path: str) -> tuple[nn.Module, str] | Absent:
    """A role, `block`, `root`, a host of the block, or a native path under the block (the root for the model's values)."""
    block = host.block or host
    path = path.replace("#", str(block.index))
    head, _, tail = path.partition(".")
    start: Any = {"root": (host.owner.module, ""), "block": (block.module, block.path)}.get(head) or host.role(head)
    if isinstance(start, Absent):
        return start
    if start is None:
        start, tail = (block.module, block.path), path
    found = lookup(start[0], tail)
    if not isinstance(found, nn.Module):
        return Absent(f"{type(start[0]).__name__} has no module {tail}")
    return found, join(start[1], tail)


def _module(host: Host, place: Place) -> tuple[nn.Module, str]:
    """The module to tap and its path; attention points have no path of their own: they are in the host's call."""
    source = place.source
    found = (host.module, host.path) if isinstance(source, Attention) else _find(host, source.path)  # type: ignore[union-attr]
    if isinstance(found, Absent):
        raise RowDoesNotFit(found.reason)
    return found


def _stage(host: Host, place: Place, layout: layouts.Layout) -> dict[str, Any]:
    """When in the module's call to stop, and which piece of what is held there the value is.

    Queries, keys and values share one stop of the attention call, so that they are served in any order, and are told
    apart by their number; likewise the arguments of one Python function.
    """
    source = place.source
    if isinstance(source, Calls):
        blank = tuple(host.sizes[axis] for axis in layout.axes[1:]) if place.zeros else None
        call = CallItem(source.ways, blank)
        return {"stage": CALL, "step": step_of(source, call), "item": call}
    if isinstance(source, Attention):
        step = _STEPS.get(source.point, source.point)
        return {"stage": ATTENTION, "step": step, "item": _ITEMS.get(source.point, 0)}
    if isinstance(source, Operation):
        step = f"{source.function}[{source.index}] > {source.side}"
        return {"stage": OPERATION, "step": step, "item": source.item, "operation": source}
    assert isinstance(source, Side)
    item = After(str(source.item)) if source.side == "after" else source.item
    return {"stage": INPUT if source.side == "in" else OUTPUT, "item": item}


def _codec(host: Host, value: Value, place: Place, layout: layouts.Layout) -> Codec:
    """How the native tensor becomes the value; a pattern that does not fit is reported with file and cell."""
    scales = tuple((scale_of(host, factor), factor.divides) for factor in place.factors)
    try:
        pattern = host.owner.pattern_of(place)
        view = View(pattern, layout.axes, host.sizes) if pattern else None
    except RowDoesNotFit as fault:
        raise RowDoesNotFit(f"families/{host.owner.family.name}.py, {place.text!r} on {host!r}: {fault}") from None
    return Codec(view, scales, place.through, place.copied or value.key in CACHED, place.shared)


def scale_of(host: Host, factor: Factor) -> Scale:
    """A factor as a function: a number of the config, or a live attribute such as `block.layer_scalar`."""
    head, _, tail = factor.name.partition(".")
    if tail:
        block = (host.block or host).module
        start = {"block": block, "root": host.owner.module, "config": host.owner.config}.get(head)
        owner = start if start is not None else _find(host, head)[0]  # type: ignore[index]
        if lookup(owner, tail) is None:
            raise RowDoesNotFit(f"families/{host.owner.family.name}.py: {factor.name} is not on {host!r}")
        return lambda: _worth(factor, lookup(owner, tail))
    number = float(factor.name) if factor.name.isdigit() else setting(host.owner.config, factor.name)
    if number is None:
        raise RowDoesNotFit(f"families/{host.owner.family.name}.py: the config has no {factor.name}")
    fixed = _worth(factor, float(number))
    return lambda: fixed


def _worth(factor: Factor, given: Any) -> Any:
    """What a factor makes of the number, or the parameter, that it names."""
    given = given - factor.less if factor.less else given
    if factor.root:
        return given**0.5
    return given if not factor.tanh else given.tanh() if hasattr(given, "tanh") else math.tanh(given)
