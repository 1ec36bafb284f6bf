"""Overrides: what one type needs beyond the general rules, as data.

A key is a dotted path through the config, e.g. `"text_config.layer_types"`.  A leading `*.` stands for every place in
the tree, sub-configs and dicts alike, where the rest of the path already leads to something: `"*.mrope_section"` sets
them all, and none where there is none.  A value with a `"model_type"` is a whole config, e.g. a tower of another type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig

from nnatlas.errors import InputError

Node = PretrainedConfig | MutableMapping[str, Any]


def apply_overrides(config: PretrainedConfig, overrides: Mapping[str, object]) -> None:
    """Set every path of `overrides` in `config`, in order.  InputError for a path without a star that leads nowhere."""
    for path, value in overrides.items():
        *parents, name = path.removeprefix("*.").split(".")
        anywhere = path.startswith("*.")
        places = [node for root in (_nodes(config) if anywhere else [config]) for node in _descend(root, parents)]
        places = [node for node in places if name in _fields(node)] if anywhere else places
        if not places and not anywhere:
            there = ", ".join(_fields(config))
            raise InputError(f"the override {path!r} leads nowhere in a {config.model_type!r} config; it has {there}")
        for node in places:
            _put(node, name, value)


def configs_in(config: PretrainedConfig) -> list[PretrainedConfig]:
    """`config` and every sub-config below it, each once."""
    found = [node for node in _nodes(config) if isinstance(node, PretrainedConfig)]
    return list({id(node): node for node in found}.values())


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for value in _fields(node).values():
        if isinstance(value, PretrainedConfig | dict):
            yield from _nodes(value)


def _descend(node: Node, names: list[str]) -> Iterator[Node]:
    for name in names:
        below = _fields(node).get(name)
        if not isinstance(below, PretrainedConfig | dict):
            return
        node = below
    yield node


def _fields(node: Node) -> Mapping[str, Any]:
    return node if isinstance(node, dict) else {k: v for k, v in vars(node).items() if not k.startswith("_")}


def _put(node: Node, name: str, value: Any) -> None:
    if isinstance(value, Mapping) and "model_type" in value:
        fields = {key: item for key, item in value.items() if key != "model_type"}
        vars(node)[name] = CONFIG_MAPPING[value["model_type"]](**fields)  # past the check for the type's own tower
        return
    value = tuple(value) if isinstance(_fields(node).get(name), tuple) else deepcopy(value)
    node.__setitem__(name, value) if isinstance(node, dict) else setattr(node, name, value)
