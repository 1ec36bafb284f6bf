"""A node: one module of the model as users meet it, with its values, standard names, native names and sizes.

Nodes hold no tensors.  Reading a value asks the run that is open on the model (or the run the node was reached through, as
in `a.layers[8].layer_output` for `with model.trace(...) as a`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from nnatlas.bind.cells import name_of, native_point, unavailable
from nnatlas.bind.paths import join
from nnatlas.bind.points import INPUT, OUTPUT
from nnatlas.bind.tree import BoundModel, Host
from nnatlas.engine import Run, current_run
from nnatlas.engine.payloads import WHOLE
from nnatlas.errors import NotInRun
from nnatlas.layouts import LAYOUTS
from nnatlas.model.vision import OfTower, refuse_blind
from nnatlas.places import Absent
from nnatlas.values import HOSTS, OF_IMAGES, RARE, VALUES, VISION, VISION_HOSTS, Value, host_path, on_host

if TYPE_CHECKING:
    from nnatlas.engine.run import Computed, Point

_INPUT = Value("input", "module", LAYOUTS["Own"], "the first tensor the module was called with")
_OUTPUT = Value("output", "module", LAYOUTS["Own"], "what the module returned, as it is")
_NATIVE: dict[str, tuple[str, str | None, Value]] = {"input": (INPUT, None, _INPUT), "output": (OUTPUT, WHOLE, _OUTPUT)}
_HOSTS_OF: dict[str, list[str]] = {}
_PARTS = ("self_attn", "linear_attn", "mlp", *VISION_HOSTS)
for _value in (*VALUES.values(), *VISION.values()):
    _HOSTS_OF.setdefault(_value.name, []).append(_value.host)


def native_side(owner: BoundModel, path: str, side: str) -> Point:
    """The point of a module's own `input` or `output`, by its native path."""
    stage, item, value = _NATIVE[side]
    host = owner.hosts.get(path)
    return native_point(owner, f"{host.name if host is not None else path}.{side}", path, stage, item, value)


class Node:
    """A module by its standard or native name; `_module` is the module itself, and calling the node calls it."""

    def __init__(
        self, owner: BoundModel, path: str, module: nn.Module, host: Host | None = None, run: Run | None = None
    ) -> None:
        slots = self.__dict__
        slots["_owner"], slots["_path"], slots["_module"], slots["_host"], slots["_run"] = (
            owner,
            path,
            module,
            host,
            run,
        )

    # -- values ----------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> Any:
        """The value called `name`, from the run that is open."""
        try:
            point = self._point(name)
            if point is None:
                raise AttributeError(name)
            return self._open_run(name).read(point)
        except AttributeError as error:  # Python now asks __getattr__, which raises this very error again
            self.__dict__["_raised"] = error
            raise

    def _point(self, name: str) -> Point | Computed | None:
        """The point that a name stands for here, or None."""
        host = self._host
        if host is not None and name in host.values:
            return host.point(name)
        if name in _NATIVE and self._path and name not in self._module._modules:
            point = self.__dict__.get("_natives", {}).get(name)
            if point is not None:
                return point
            point = native_side(self._owner, self._path, name)
            self.__dict__.setdefault("_natives", {})[name] = point
            return point
        return None

    def _open_run(self, name: str) -> Run:
        run = self._run or current_run(self._owner)
        if run is None:
            shown = name_of(self._host, name) if self._host is not None else f"{self._path}.{name}"
            raise NotInRun(
                f"{shown} exists only while a run is open: with model.trace(prompt): x = model.{shown}. "
                f"For many values at once: model.collect(prompt, ['{shown}', ...])"
            )
        return run

    def __getattr__(self, name: str) -> Any:
        """Parts, standard and native names, sizes, and what the module itself has (called when nothing else fits)."""
        if name.startswith("__"):
            raise AttributeError(name)
        raised = self.__dict__.pop("_raised", None)
        if raised is not None and name not in self._module._modules:
            try:
                raise raised
            finally:
                raised = None  # a frame that holds its own error would keep the forward's tensors alive
        found = self._child(name)
        if found is not None:
            self.__dict__[name] = found
            return found
        return self._own(name)

    def __setattr__(self, name: str, value: Any) -> None:
        point = self._point(name)
        if point is None:
            raise AttributeError(f"{name!r} is not a value here{self._near(name)}; the module itself is ._module")
        self._open_run(name).write(point, value)

    # -- names -----------------------------------------------------------------------------------------------------

    def _child(self, name: str) -> Node | Nodes | None:
        """A part, a role or a native child by name."""
        host = self._host
        if host is not None:
            if name == "layers" and host.is_stack:
                return Nodes([self._node(block.path, block.module, block) for block in host.owner.blocks])
            if name in host.parts:
                part = host.parts[name]
                return self._node(part.path, part.module, part)
            bound = host.roles.get(_ALIASES.get(name, name))
            if isinstance(bound, Absent) and name in _PARTS:
                raise unavailable(host, name, bound.reason)
            if isinstance(bound, tuple) and not (name in _ALIASES and name in dict(self._module.named_children())):
                return self._node(bound[1], bound[0])
        native = getattr(self._module, name, None)
        return self._node(join(self._path, name), native) if isinstance(native, nn.Module) else None

    def _node(self, path: str, module: nn.Module, host: Host | None = None) -> Any:
        """The node of a module: of the class for its host, a list for a container of modules, else a plain one."""
        host = host or self._owner.hosts.get(path)
        if isinstance(module, nn.ModuleList) and host is None:
            children = [self._node(join(path, str(at)), child) for at, child in enumerate(module)]
            return Nodes(children, module)
        classes = _CLASSES if host is None or not host.owner.in_front else _TOWER_CLASSES
        kind = Node if host is None else classes[host.kind]
        return kind(self._owner, path, module, host, self._run)

    def _own(self, name: str) -> Any:
        """A size, an attribute of the module, or an error that says what there is."""
        if self._host is not None and name in self._host.sizes:
            return self._host.sizes[name]
        try:
            return getattr(self._module, name)
        except AttributeError:
            elsewhere = _HOSTS_OF.get(name)
            hint = f"; it hangs on {' and '.join(map(host_path, elsewhere))}" if elsewhere else self._near(name)
            label = (self._host.name if self._host is not None else self._path) or "the model"
            raise AttributeError(f"{label} ({type(self._module).__name__}) has no {name!r}{hint}") from None

    def _near(self, name: str) -> str:
        close = difflib.get_close_matches(name, dir(self), 3)
        return f"; near: {', '.join(close)}" if close else ""

    def __dir__(self) -> list[str]:
        """What completion offers: values, parts, roles, sizes and native children."""
        host, names = self._host, {"_module", *dict(self._module.named_children())}
        if self._path:
            names |= {"input", "output"}
        if host is not None:
            roles = {role for role, bound in host.roles.items() if isinstance(bound, tuple)}
            names |= {*host.values, *host.parts, *host.sizes, *roles} | ({"layers"} if host.is_stack else set())
        return sorted(names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module itself, outside the forward that is waiting."""
        return self._module(*args, **kwargs)

    def __repr__(self) -> str:
        from nnatlas.model.printing import tree_text

        return tree_text(self)

    def __rich__(self) -> Any:
        from nnatlas.model.printing import Tree

        return Tree(self)


def _reader(name: str, doc: str) -> property:
    return property(lambda node: node._read(name), doc=doc)


def _image_reader(name: str, doc: str) -> property:
    """The reader of a value that runs have only with images."""

    def read(node: Node) -> Any:
        try:
            if node._host is not None and name in node._host.values:
                refuse_blind(node._open_run(name), node._host, name)
        except AttributeError as error:  # Python now asks __getattr__, which raises this very error again
            node.__dict__["_raised"] = error
            raise
        return node._read(name)

    return property(read, doc=doc)


for _side, _native in _NATIVE.items():
    setattr(Node, _side, _reader(_side, _native[-1].doc))


def _node_class(host: str) -> Any:
    """The class of a host's nodes, with a property for every value: completers name a property without evaluating it.

    An attribute that only `__getattr__` knows is evaluated by tab completion, which would resume the forward.
    """
    rare = (value for value in RARE.values() if value.host == host)
    readers = ((value, _image_reader if value.key in OF_IMAGES else _reader) for value in (*on_host(host), *rare))
    values = {value.name: reader(value.name, value.doc) for value, reader in readers}
    return type(f"{host.title().replace('_', '')}Node", (Node,), {"__doc__": Node.__doc__, **values})


_CLASSES = {host: _node_class(host) for host in HOSTS}
_TOWER_CLASSES = {
    host: type(f"Tower{made.__name__}", (OfTower, made), {"__doc__": Node.__doc__})
    for host in (*HOSTS, *VISION_HOSTS)
    for made in [_CLASSES.get(host) or _node_class(host)]
}
ModelNode: Any = _CLASSES["model"]


class Nodes:
    """A stack of nodes, `model.layers`: indexed, sliced, counted and looped over like a list."""

    def __init__(self, nodes: list[Any], module: nn.Module | None = None) -> None:
        self._nodes, self._module = nodes, module

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._nodes[index]
        except IndexError:
            raise IndexError(
                f"block {index} of {len(self._nodes)}: they are numbered 0 to {len(self._nodes) - 1}"
            ) from None

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._nodes)

    def __repr__(self) -> str:
        return f"<{len(self._nodes)} x {type(self._nodes[0]._module).__name__}>" if self._nodes else "<no blocks>"


_ALIASES = {"input_layernorm": "attention_norm", "post_attention_layernorm": "mlp_norm"}
"""Llama's words, offered where the family has no module of that name itself."""
