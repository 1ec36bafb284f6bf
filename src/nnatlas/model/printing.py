"""How a model and its support look in a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from torch import nn

from nnatlas.bind.tree import Host
from nnatlas.model.support import ALL, Served, Support, spans, support_of
from nnatlas.show import html_of, table, text_of

if TYPE_CHECKING:
    from nnatlas.model.node import Node


def tree_text(node: Node) -> str:
    """The native tree below a node, with standard names beside native ones and every value with its layout."""
    host = node._host
    if host is None:
        return f"{node._path}: {node._module!r}"
    return "\n".join(_host_lines(host, "", ""))


def tree_html(node: Node) -> str:
    return f"<pre style='line-height:1.35'>{escape(tree_text(node))}</pre>"


def _host_lines(host: Host, label: str, indent: str) -> Iterator[str]:
    """One host: its modules, then its values."""
    yield f"{indent}{label}{type(host.module).__name__}("
    inner = indent + "  "
    shown = {part.module for part in host.parts.values() if part.module is not host.module}
    for part in host.parts.values():
        if part.module is not host.module:
            yield from _host_lines(part, f"({_label(host, part.module, part.path, part.kind)}): ", inner)
    for name, module in _modules(host):
        if module not in shown:
            yield from _module_lines(host, name, module, inner)
    if host.kind == "model":
        yield from _block_lines(host, inner)
    yield from _value_lines(host, inner)
    for part in host.parts.values():
        if part.module is host.module:
            yield f"{inner}({part.kind}: the block itself)"
            yield from _value_lines(part, inner + "  ")
    yield f"{indent})"


def _modules(host: Host) -> list[tuple[str, nn.Module]]:
    """The modules to show: a block's children, for the model those that play a role."""
    if host.kind != "model":
        return list(host.module.named_children())
    roles = (host.roles[role] for role in ("embed_tokens", "norm", "lm_head"))
    return [(bound[1], bound[0]) for bound in roles if isinstance(bound, tuple)]


def _module_lines(host: Host, name: str, module: nn.Module, indent: str) -> Iterator[str]:
    text = repr(module).replace("\n", "\n" + indent)
    yield f"{indent}({_label(host, module, name, name)}): {text}"


def _label(host: Host, module: nn.Module, path: str, fallback: str) -> str:
    """Standard names of a module next to its native one."""
    native = path.rpartition(".")[2] or fallback
    roles = [
        role for role, bound in host.roles.items() if isinstance(bound, tuple) and bound[0] is module and role != "base"
    ]
    return "/".join(dict.fromkeys([*roles, native]))


def _block_lines(host: Host, indent: str) -> Iterator[str]:
    """Blocks that look alike are shown once."""
    groups: dict[tuple[Any, ...], list[Host]] = {}
    for block in host.owner.blocks:
        groups.setdefault((block.kinds, type(block.module), *block.parts), []).append(block)
    yield f"{indent}(layers): {len(host.owner.blocks)} blocks"
    for blocks in groups.values():
        kinds = f" {' + '.join(blocks[0].kinds)}" if blocks[0].kinds else ""
        yield from _host_lines(
            blocks[0], f"({spans([block.index or 0 for block in blocks])}){kinds}: {len(blocks)} x ", indent + "  "
        )


def _value_lines(host: Host, indent: str) -> Iterator[str]:
    notes = host.owner.family.notes
    for name, value in host.values.items():
        reason = host.absence(name)
        note = f"; {notes[name]}" if name in notes else ""
        if reason is None:
            yield f"{indent}({name}) -> {host.point(name).layout}: {value.doc}{note}"
        else:
            yield f"{indent}({name}): not available: {reason}"


def _support_table(support: Support) -> Any:
    rows = [(key, *_cells(served)) for key, served in support.rows.items()]
    return table(support.title, ("value", "layout", "read at", "absent where, and why"), rows)


def _cells(served: Served) -> tuple[str, str, str]:
    note = f" ({served.note})" if served.note else ""
    return str(served.layout), ("" if ALL in served.missing else served.place + note), served.reason or ""


def support_text(support: Support) -> str:
    return text_of(_support_table(support))


def support_html(support: Support) -> str:
    return html_of(_support_table(support))


__all__ = ["support_html", "support_of", "support_text", "tree_html", "tree_text"]
