"""Finding modules and attributes by dotted path, and the conditions that tell kinds of block apart."""

from __future__ import annotations

from typing import Any

from torch import nn

from nnatlas.errors import RowDoesNotFit


def lookup(start: Any, path: str) -> Any:
    """The attribute at a dotted path, or None where any part is missing (digits index a container, keys a dict)."""
    for part in path.split(".") if path else ():
        if isinstance(start, dict):
            start = start.get(part)
        elif isinstance(start, list | tuple) and part.isdigit():
            start = start[int(part)]
        else:
            start = getattr(start, part, None)
        if start is None:
            return None
    return start


def join(*parts: str) -> str:
    """A dotted path of its non-empty parts."""
    return ".".join(part for part in parts if part)


def above(root: nn.Module, path: str) -> tuple[nn.Module, ...]:
    """The modules on the way from the root to `path`, the root first and the module itself left out.

    Containers are left out too: they have no forward, so nothing ever calls them.
    """
    found, module = [root], root
    for part in path.split(".")[:-1]:
        module = getattr(module, part)
        if not isinstance(module, nn.ModuleList | nn.ModuleDict):
            found.append(module)
    return tuple(found) if path else ()


def meets(condition: str, block: nn.Module, config: Any, index: int) -> bool:
    """Whether a block meets a kind's condition (see `families._row.Kind`)."""
    return any(
        all(_holds(term, block, config, index) for term in part.split(" and ")) for part in condition.split(" or ")
    )


def _holds(term: str, block: nn.Module, config: Any, index: int) -> bool:
    words = term.split()
    if words[0] in ("has", "lacks"):
        return (lookup(block, words[1]) is not None) == (words[0] == "has")
    negated = words[0] == "not"
    subject = words[1] if negated else words[0]
    place, _, name = subject.partition(".")
    if place not in ("config", "block"):
        raise RowDoesNotFit(f"a kind's condition is `has`, `lacks`, `config.x` or `block.x`, not {term!r}")
    actual = lookup(config if place == "config" else block, name)
    if isinstance(actual, list | tuple):
        actual = actual[index] if index < len(actual) else None
    return str(actual) == words[2] if "=" in words else bool(actual) != negated
