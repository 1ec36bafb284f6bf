"""One forward in which every module notes what it was given and returned, and every attention call its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.sizes import setting
from nnatlas.engine.payloads import Call, Result
from nnatlas.errors import Unavailable
from nnatlas.interior.attention import eager_of, interface_of

ROWS, LENGTH = 2, 7
CLOSE = 1e-4
"""Two tensors are the same if no entry differs by more than this, relative to the largest."""


@dataclass(slots=True)
class Note:
    """The first call of one module: its first tensor in and out, when it began and ended, and what kind of thing it returned."""

    path: str
    module: nn.Module
    began: int
    given: Tensor | None
    ended: int = 0
    returned: Tensor | None = None
    wrapped: bool = False
    chooses: bool = False


@dataclass(slots=True)
class Probe:
    """What was noted: modules by path, attention calls (queries, keys, values, output) by the module's path, and the logits.

    `sinks` are the modules whose attention call is handed a learned score that takes part in the softmax alone.
    """

    notes: dict[str, Note] = field(default_factory=dict)
    attentions: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)
    sinks: set[str] = field(default_factory=set)
    logits: Tensor | None = None

    def under(self, path: str) -> list[Note]:
        """The notes of modules below `path`, in the order in which they ended."""
        found = [note for note in self.notes.values() if note.path.startswith(f"{path}." if path else "")]
        return sorted(found, key=lambda note: note.ended)


def probe(module: Any) -> Probe:
    """Run `module` once on random ids `[2, 7]` and write everything down; it is left as it was."""
    found, paths = Probe(), {id(part): path for path, part in module.named_modules()}
    clock = iter(range(1 << 40))
    hooks = []
    for path, part in module.named_modules():
        hooks.append(part.register_forward_pre_hook(partial(_began, found, path, clock), with_kwargs=True))
        hooks.append(part.register_forward_hook(partial(_ended, found, path, clock)))
    try:
        with torch.no_grad(), _listening(module, found, paths):
            found.logits = module(input_ids=_ids(module)).logits.detach().clone()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors are equal up to rounding."""
    if one is None or other is None or one.shape != other.shape:
        return False
    return bool((one.float() - other.float()).abs().max() <= CLOSE * other.float().abs().max())


def _ids(module: Any) -> Tensor:
    entries = setting(module.config.get_text_config(), "vocab_size")
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(entries // 8, max(entries // 2, entries // 8 + 1), (ROWS, LENGTH), generator=draw)
    return ids.to(module.get_input_embeddings().weight.device)


def _began(found: Probe, path: str, clock: Iterator[int], module: nn.Module, args: Any, kwargs: Any) -> None:
    if path not in found.notes:
        found.notes[path] = Note(path, module, next(clock), _copy(Call(args, kwargs).get(None)))


def _ended(found: Probe, path: str, clock: Iterator[int], module: nn.Module, args: Any, output: Any) -> None:
    """Note the end of a module's first call: when, and a copy of what it returned, which others may write into later."""
    note = found.notes[path]
    if not note.ended:
        note.ended, note.wrapped = next(clock), not isinstance(output, Tensor)
        parts = output if isinstance(output, tuple | list) else ()
        note.chooses = any(isinstance(part, Tensor) and part.dtype == torch.long for part in parts)
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            note.returned = _copy(Result(output).get(None))


def _copy(tensor: Any) -> Tensor | None:
    return tensor.detach().clone() if isinstance(tensor, Tensor) else None


@contextlib.contextmanager
def _listening(module: nn.Module, found: Probe, paths: dict[int, str]) -> Iterator[None]:
    """Stand in for the configured attention function wherever some module's file asks for one."""
    places = {(id(interface), name): (interface, name) for part in module.modules() for interface, name in _asked(part)}
    before = {key: interface._local_mapping.get(name) for key, (interface, name) in places.items()}
    try:
        for key, (interface, name) in places.items():
            interface[name] = partial(_heard, found, paths, before[key] or interface._global_mapping.get(name))
        yield
    finally:
        for key, (interface, name) in places.items():
            del interface[name]
            if before[key] is not None:
                interface[name] = before[key]


def _asked(module: nn.Module) -> Iterator[tuple[Any, str]]:
    config = getattr(module, "config", None)
    with contextlib.suppress(Unavailable):
        yield interface_of(module), getattr(config, "_attn_implementation", None) or "eager"


def _heard(found: Probe, paths: dict[int, str], function: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    output, weights = (function or eager_of(module))(module, *args, **kwargs)
    noted = tuple(tensor.detach().clone() for tensor in (*args[:3], output))
    path = paths.get(id(module), "")
    found.attentions.setdefault(path, noted)
    if kwargs.get("s_aux") is not None:
        found.sinks.add(path)
    return output, weights
