"""Which blocks of a deep model a shallow one keeps: at least one of every kind.

A config says what differs between blocks in lists: one entry per block (`layer_types`), or the indices of some blocks
(`cross_attention_layers`).  Blocks that agree in all of them are one kind.  The shallow model keeps the first block of
every kind and fills up with the earliest others, so the order stays the model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PretrainedConfig

from .fields import BLOCK_INDICES, is_count, named

Overrides = list[dict[str, Any]]


def keep_blocks(config: PretrainedConfig, count: int, count_fields: str) -> list[int]:
    """Cut `config` to `count` blocks, or to one of each kind where there are more; the indices of those kept.

    `count_fields` names the fields that may hold the number of blocks.  A config without any is left alone.
    """
    counts = [name for name, value in vars(config).items() if named(name, count_fields) and is_count(value)]
    if not counts:
        return []
    depth = vars(config)[counts[0]]
    lists = {name: value for name, value in vars(config).items() if isinstance(value, list | tuple)}
    per_block = {name: value for name, value in lists.items() if len(value) == depth and not _is_range(value)}
    chosen = {name: value for name, value in lists.items() if name not in per_block and _is_choice(name, value, depth)}
    kept = _choose([*per_block.values(), *([i in v for i in range(depth)] for v in chosen.values())], depth, count)
    for name in counts:
        setattr(config, name, len(kept))
    for name, value in per_block.items():
        setattr(config, name, type(value)(value[old] for old in kept))
    for name, value in chosen.items():
        setattr(config, name, type(value)(new for new, old in enumerate(kept) if old in value))
    return kept


def take_overrides(config: PretrainedConfig) -> Overrides:
    """What each block sets differently from the config it belongs to, taken off the config; empty where none does."""
    names = config.per_layer_attributes or ()
    overrides = [{name: getattr(block, name) for name in names} for block in config.per_layer_config] if names else []
    config.per_layer_config = None
    return overrides


def put_overrides(config: PretrainedConfig, overrides: Overrides, large: dict[str, Any], kept: Sequence[int]) -> None:
    """Give the blocks `kept` their `overrides` back, in the proportion they had to the fields of the `large` config."""
    small = vars(config)
    if overrides:
        config.per_layer_config = {
            new: {name: _in_proportion(value, large[name], small[name]) for name, value in overrides[old].items()}
            for new, old in enumerate(kept)
        }


def _in_proportion(value: Any, large: Any, small: Any) -> Any:
    return max(1, small * value // large) if all(map(is_count, (value, large, small))) else value


def _choose(traits: list[Sequence[Any]], depth: int, count: int) -> list[int]:
    """Indices of `count` or more out of `depth` blocks, in order, that show every combination of `traits`."""
    if depth < count:
        return [index % depth for index in range(count)]
    first: dict[str, int] = {}
    for index in range(depth):
        first.setdefault(repr([trait[index] for trait in traits]), index)
    others = [index for index in range(depth) if index not in first.values()]
    return sorted([*first.values(), *others[: max(0, count - len(first))]])


def _is_range(value: Sequence[Any]) -> bool:
    return list(value) == list(range(len(value)))


def _is_choice(name: str, value: Sequence[Any], depth: int) -> bool:
    fits = all(type(index) is int and 0 <= index < depth for index in value)
    return bool(value) and fits and (_is_range(value) or named(name, BLOCK_INDICES))
