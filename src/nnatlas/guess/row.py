"""A family row from the roles that were found: the usual shape, with the cells changed in which the model differs.

A cell is left out where the usual shape finds the very same module, so that a draft shows what is special about a model.
Blocks that differ from the first become kinds, told apart by a module or parameter that only one of them has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.paths import lookup
from nnatlas.errors import UnsupportedFamily
from nnatlas.families._row import ROLES, Family, kind
from nnatlas.families._shapes import PARALLEL, USUAL, absent
from nnatlas.guess import roles, sums
from nnatlas.guess.probe import Probe, probe, same
from nnatlas.places import Absent

NOT_SEEN = "no module was seen to play this role"
NO_SUM = "the outputs of no few modules make what the block adds to its stream"
_LEFT_ALONE = ("linear_attn", "shared_experts")
"""Roles that nothing in a probe tells: the usual shape's cell stands, and the laws judge it."""
_OF_BLOCK = tuple(role for role, host in ROLES.items() if host != "model" and role not in _LEFT_ALONE)


@dataclass(frozen=True, slots=True)
class Kind:
    """A block that is built otherwise than the first: what tells it apart, and its cells."""

    when: str
    cells: dict[str, Any]


@dataclass(slots=True)
class Draft:
    """A row in the making: the cells that differ from Llama's, kinds of block, and what `but` takes besides."""

    name: str
    covers: str
    cells: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)

    def family(self) -> Family:
        made = tuple(kind(name, one.when, **one.cells) for name, one in self.kinds.items())
        return USUAL.but(name=self.name, covers=self.covers, kinds=made, **self.other, **self.cells)


def draft(module: Any) -> Draft:
    """The row that a probe forward suggests; `UnsupportedFamily` where not even a stack of blocks is to be seen."""
    kind_of, seen = module.config.model_type, probe(module)
    path = roles.stack(module, seen)
    if path is None:
        raise UnsupportedFamily(
            f"model_type {kind_of!r} has no row, and none can be guessed: no list of blocks hands on one stream"
        )
    found = Draft(kind_of.replace("-", "_").replace(".", "_"), kind_of)
    blocks = [roles.block(seen, f"{path}.{at}") for at in range(len(lookup(module, path)))]
    _ends(found, module, seen, path)
    first = _cells(found, module, blocks[0])
    found.cells |= first
    for at, other in enumerate(blocks):
        if (differing := _different(first, _cells(found, module, other))) and differing not in _known(found):
            found.kinds[f"like block {at}"] = Kind(_telling(module, blocks[0].path, other.path), differing)
    return found


def _known(found: Draft) -> list[Mapping[str, Any]]:
    return [one.cells for one in found.kinds.values()]


def _different(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of one block that differ from the first one's; those that it lacks go back to the usual shape's."""
    usual = {key.rpartition(".")[2]: cell for key, cell in USUAL.cells.items() if not key.startswith("linear_attn.")}
    return {name: other.get(name, usual[name]) for name in {*first, *other} if first.get(name) != other.get(name)}


def _telling(module: nn.Module, first: str, other: str) -> str:
    """A module or parameter that one of two blocks has and the other has not."""
    names = [{name for name, _ in _named(lookup(module, path))} for path in (first, other)]
    for word, differing in (("has", names[1] - names[0]), ("lacks", names[0] - names[1])):
        if differing:
            return f"{word} {min(differing, key=lambda name: (name.count('.'), name))}"
    raise UnsupportedFamily(
        f"{first} and {other} compute differently, but no module that one of them lacks tells them apart"
    )


def _named(block: nn.Module) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in (*block.named_modules(), *block.named_parameters()) if name]


# -- the ends of the model -----------------------------------------------------------------------------------------


def _ends(found: Draft, module: Any, seen: Probe, path: str) -> None:
    """Base, blocks, embedding, final norm and head, and how logits are read out."""
    base = path.rpartition(".")[0]
    paths = {id(part): at for at, part in module.named_modules()}
    head = paths.get(id(module.get_output_embeddings()), "")
    last = seen.notes[f"{path}.{len(lookup(module, path)) - 1}"]
    norm, normed = roles.head(seen, last, head)
    named = {"layers": path, "embed_tokens": paths[id(module.get_input_embeddings())], "norm": norm, "lm_head": head}
    if not isinstance(_default(module, "base"), str) or lookup(module, str(_default(module, "base"))) is not lookup(
        module, base
    ):
        found.cells["base"] = base
    for role, at in named.items():
        cell = (
            absent(NOT_SEEN) if not at else f"base.{at[len(base) + 1 :]}" if base and at.startswith(f"{base}.") else at
        )
        if cell != _default(module, role):
            found.cells[role] = cell
    readout = [*(["norm"] if norm else []), *_scaled(normed, _given(seen, head), module.config), "lm_head"]
    readout += _scaled(_returned(seen, head), seen.logits, module.config)
    if (said := " | ".join(readout)) != USUAL.readout:
        found.other["readout"] = said
    if beside := _beside(seen, f"{path}.0", named["embed_tokens"]):
        found.other["passes"] = " ".join(
            f"base.{at[len(base) + 1 :]}" if base and at.startswith(f"{base}.") else f"root.{at}" for at in beside
        )


def _beside(seen: Probe, first: str, embedding: str) -> list[str]:
    """Modules with parameters that were done before the first block began and are not the embedding: positions, norms on it."""
    starts = seen.notes[first].began
    early = [
        at for at, note in seen.notes.items() if 0 < note.ended < starts and any(True for _ in note.module.parameters())
    ]
    alone = [at for at in early if not _within(at, embedding) and not _within(embedding, at)]
    return [at for at in alone if not any(_within(at, other) and at != other for other in alone)]


def _within(path: str, other: str) -> bool:
    return f"{path}.".startswith(f"{other}.")


def _given(seen: Probe, path: str) -> Tensor | None:
    return seen.notes[path].given if path in seen.notes else None


def _returned(seen: Probe, path: str) -> Tensor | None:
    return seen.notes[path].returned if path in seen.notes else None


def _scaled(before: Tensor | None, after: Tensor | None, config: Any) -> list[str]:
    """Stages that lead from one tensor to another: a factor that the config states, or a tanh cap; none if they are equal."""
    if before is None or after is None or same(after, before) or before.shape != after.shape:
        return []
    factor = float((before * after).sum() / (before * before).sum())
    if same(before * factor, after) and (suffix := sums.named(factor, config)):
        return [suffix.strip()]
    for name, cap in sums._numbers(config).items():
        if cap > 0 and same(torch.tanh(before / cap) * cap, after):
            return [f"cap {name}"]
    return []


# -- one block -----------------------------------------------------------------------------------------------------


def _cells(found: Draft, module: Any, block: roles.Block) -> dict[str, Any]:
    """A block's cells where they are not what Llama's row says already."""
    host, cells = lookup(module, block.path), dict[str, Any]()
    for role in _OF_BLOCK:
        own = block.roles.get(role)
        if _part(role, block) is None:  # of an attention or MLP that is not there
            continue
        usual = _resolved(host, _part(role, block), role)
        if own != usual:
            cells[role] = own if own is not None else absent(NOT_SEEN)
    return cells | _values(module, block)


def _part(role: str, block: roles.Block) -> str | None:
    """The path, below the block, of the module that a role's own path starts from."""
    return "" if ROLES[role] == "block" else block.roles.get(ROLES[role])


def _values(module: Any, block: roles.Block) -> dict[str, Any]:
    """Where values sit, if not at the shape's place."""
    cells: dict[str, Any] = {}
    for value, usual in (("attention_output", "self_attn"), ("mlp_output", "mlp")):
        role, factor = block.written.get(value, (usual, 1.0))
        suffix = sums.named(factor, module.config.get_text_config())
        if role != usual or suffix:
            cells[value] = f"{role} > out{suffix or ''}"
    if block.parallel:
        cells["layer_mid"] = absent(PARALLEL)
    elif "mlp_norm" not in block.roles and "mlp" in block.roles:
        cells |= {"layer_mid": "mlp > in shared", "mlp_input": "mlp > in copied"}
    return cells | block.heads


def _resolved(host: nn.Module, start: str | None, role: str) -> str | None:
    """The path that Llama's row finds for a role here; None where it says that there is none, "" where it does not fit."""
    origin = lookup(host, start or "") if start not in (None, "block") else host
    for alternative in _alternatives(USUAL.cells[role]):
        if isinstance(alternative, Absent):
            return None
        if isinstance(lookup(origin, alternative), nn.Module):
            return alternative
    return ""


def _default(module: nn.Module, role: str) -> Any:
    """The alternative of Llama's cell that this model has."""
    for alternative in _alternatives(USUAL.cells[role]):
        if isinstance(alternative, str) and (
            alternative.startswith("base.") or lookup(module, alternative) is not None
        ):
            return alternative
    return None


def _alternatives(cell: Any) -> tuple[Any, ...]:
    return cell if isinstance(cell, tuple) else (cell,)
