"""Which blocks of a deep model a shallow one keeps: at least one of every kind.

A config says what differs between blocks in lists: one entry per block (`layer_types`), or the indices of some blocks
(`cross_attention_layers`), or fields that single blocks override.  Blocks that agree in all of them are one kind.  The shallow
model keeps the first block of every kind and fills up with the earliest others, so the order stays the model's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from transformers import PretrainedConfig

INDEX_LIST = r"\w*(_layers|_ind(ex|ic)es|_idxs|layer_ids)"
Overrides = list[dict[str, Any]]


def keep_blocks(config: PretrainedConfig, count: int, count_fields: str) -> list[int]:
    """Cut `config` to `count` blocks, or to one of each kind where there are more; the indices of those kept.

    `count_fields` is the pattern of the fields that hold the number of blocks.  A config without any is left alone.
    """
    counts = [name for name, value in vars(config).items() if re.fullmatch(count_fields, name) and _is_positive(value)]
    if not counts:
        return []
    depth = vars(config)[counts[0]]
    lists = {name: value for name, value in vars(config).items() if isinstance(value, list | tuple)}
    per_block = {name: value for name, value in lists.items() if len(value) == depth and not _is_range(value)}
    indices = {name: value for name, value in lists.items() if name not in per_block and _is_index_list(name, value, depth)}
    kept = _choose([*per_block.values(), *([i in v for i in range(depth)] for v in indices.values())], depth, count)
    for name in counts:
        setattr(config, name, len(kept))
    for name, value in per_block.items():
        setattr(config, name, type(value)(value[old] for old in kept))
    for name, value in indices.items():
        setattr(config, name, type(value)(new for new, old in enumerate(kept) if old in value))
    return kept


def take_overrides(config: PretrainedConfig) -> Overrides:
    """What each block sets differently from the config it belongs to, taken off the config; empty where none does."""
    names = config.per_layer_attributes or ()
    overrides = [{name: getattr(block, name) for name in names} for block in config.per_layer_config] if names else []
    config.per_layer_config = None
    return overrides


def put_overrides(config: PretrainedConfig, overrides: Overrides, general: dict[str, Any], kept: Sequence[int]) -> None:
    """Give the blocks `kept` their `overrides` back, in the proportion they had to the `general` fields of the large config."""
    if not overrides:
        return
    small = vars(config)
    config.per_layer_config = {
        new: {name: _in_proportion(value, general[name], small[name]) for name, value in overrides[old].items()}
        for new, old in enumerate(kept)
    }


def _in_proportion(value: Any, general: Any, small: Any) -> Any:
    sizes = (value, general, small)
    return max(1, small * value // general) if all(_is_positive(size) for size in sizes) else value


def _choose(traits: list[Sequence[Any]], depth: int, count: int) -> list[int]:
    if depth < count:
        return [index % depth for index in range(count)]
    first: dict[str, int] = {}
    for index in range(depth):
        first.setdefault(repr([trait[index] for trait in traits]), index)
    others = [index for index in range(depth) if index not in first.values()]
    return sorted([*first.values(), *others[: max(0, count - len(first))]])


def _is_positive(value: object) -> bool:
    return type(value) is int and value > 0


def _is_range(value: Sequence[Any]) -> bool:
    return list(value) == list(range(len(value)))


def _is_index_list(name: str, value: Sequence[Any], depth: int) -> bool:
    fits = all(type(index) is int and 0 <= index < depth for index in value)
    return bool(value) and fits and (_is_range(value) or re.fullmatch(INDEX_LIST, name) is not None)
