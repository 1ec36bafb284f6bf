"""How a model and its support look: in colour in a terminal, plain in a pipe or `repr`, with the same words in a
notebook.

The tree is a list of lines; each is folded under its own text, so that names stay in one column.  Values that a host
does not have come after those it has, those with one reason on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.text import Text
from torch import nn

from nnatlas.bind.tree import Host
from nnatlas.model.support import spans
from nnatlas.show import terminal_width
from nnatlas.values import VISION_HOSTS

if TYPE_CHECKING:
    from nnatlas.model.node import Node

STEP = "  "
HTML_WIDTH = 120
MODULE, ROLE, VALUE, LAYOUT, QUIET, GONE = "bold", "cyan", "green", "yellow", "dim", "red"


class Tree:
    """The native tree below a node: standard names beside native ones, and every value with its layout.

    >>> rich.print(Tree(model.layers[0].self_attn))
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    def lines(self) -> Iterator[Text]:
        """The lines, unfolded; those of a module that no host is made of are its own `repr`."""
        host = self.node._host
        if host is None:
            yield Text(f"{self.node._path}: {self.node._module!r}")
        else:
            yield from _host_lines(host, Text(), "")

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Text]:
        for line in self.lines():
            yield from _folded(line, options.max_width)

    def __str__(self) -> str:
        """Plain text: folded where stdout is a terminal, a line for each value where it is not."""
        width = terminal_width()
        lines = self.lines() if width is None else (part for line in self.lines() for part in _folded(line, width))
        return "\n".join(line.plain.rstrip() for line in lines)


def tree_text(node: Node) -> str:
    """The tree as plain text: see `Tree.__str__`."""
    return str(Tree(node))


def tree_html(node: Node) -> str:
    """The tree as a fragment of HTML, coloured, every character of it escaped."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), record=True, width=HTML_WIDTH, force_terminal=True, legacy_windows=False)
    console.print(Tree(node))
    body = console.export_html(inline_styles=True, code_format="{code}")
    return f"<pre style='line-height:1.35;overflow-x:auto;font-family:monospace'>{body}</pre>"


def _host_lines(host: Host, label: Text, indent: str) -> Iterator[Text]:
    """One host: its modules in the model's own order, then its values."""
    yield Text.assemble(indent, label, (type(host.module).__name__, MODULE), "(")
    inner = indent + STEP
    parts = {part.module: part for part in host.parts.values() if part.module is not host.module}
    for name, module in _modules(host):
        part = parts.get(module)
        yield from (
            _module_lines(host, name, module, inner)
            if part is None
            else _host_lines(part, _label(host, module, part.path, part.kind), inner)
        )
    if host.is_stack:
        yield from _block_lines(host, inner)
    yield from _value_lines(host, inner)
    yield from _tower_lines(host, inner)
    for part in host.parts.values():
        if part.module is host.module:
            yield Text.assemble(inner, "(", (part.kind, ROLE), "): the block itself")
            yield from _value_lines(part, inner + STEP)
    yield Text(f"{indent})")


def _modules(host: Host) -> list[tuple[str, nn.Module]]:
    """The modules to show: a block's children and parts, for the model those that play a role."""
    if not host.is_stack:
        found = dict(host.module.named_children())
        shown = set(found.values())
        return [
            *found.items(),
            *((part.kind, part.module) for part in host.parts.values() if _apart(part, host, shown)),
        ]
    roles = (host.roles[role] for role in ("embed_tokens", "patch_embed", "norm", "lm_head") if role in host.roles)
    return [(bound[1], bound[0]) for bound in roles if isinstance(bound, tuple)]


def _apart(part: Host, host: Host, shown: set[nn.Module]) -> bool:
    """Whether a part is neither the block nor one of its children, but further down."""
    return part.module is not host.module and part.module not in shown


def _module_lines(host: Host, name: str, module: nn.Module, indent: str) -> Iterator[Text]:
    first, *more = repr(module).split("\n")
    kind, bracket, rest = first.partition("(")
    yield Text.assemble(indent, _label(host, module, name, name), (kind, MODULE), (bracket + rest, QUIET))
    yield from (Text(indent + line, QUIET) for line in more)


def _label(host: Host, module: nn.Module, path: str, fallback: str) -> Text:
    """`(standard/native): `, one name where they are the same; Llama's words stand between where they are offered."""
    from nnatlas.model.node import _ALIASES

    native, children = path.rpartition(".")[2] or fallback, dict(host.module.named_children())
    roles = [role for role, bound in host.roles.items() if _plays(bound, module) and role != "base"]
    roles += [alias for alias, role in _ALIASES.items() if role in roles and alias not in children]
    names = list(dict.fromkeys([*roles, native]))
    shown = Text("/").join(Text(name, ROLE if name in roles else QUIET) for name in names)
    return Text.assemble("(", shown, "): ")


def _plays(bound: Any, module: nn.Module) -> bool:
    return isinstance(bound, tuple) and bound[0] is module


def _tower_lines(host: Host, indent: str) -> Iterator[Text]:
    """What reads images, in front of the text model, and what makes tokens of it."""
    for name in VISION_HOSTS:
        part = host.parts.get(name)
        if part is not None:
            yield from _host_lines(part, Text.assemble("(", (name, ROLE), "/", (part.path, QUIET), "): "), indent)


def _block_lines(host: Host, indent: str) -> Iterator[Text]:
    """Blocks that look alike are shown once."""
    groups: dict[tuple[Any, ...], list[Host]] = {}
    for block in host.owner.blocks:
        groups.setdefault((block.kinds, type(block.module), *block.parts), []).append(block)
    yield Text.assemble(indent, "(", ("layers", ROLE), f"): {len(host.owner.blocks)} blocks")
    for blocks in groups.values():
        kinds = f" {' + '.join(blocks[0].kinds)}" if blocks[0].kinds else ""
        which = f"({spans([block.index or 0 for block in blocks])}){kinds}: {len(blocks)} x "
        yield from _host_lines(blocks[0], Text(which), indent + STEP)


def _value_lines(host: Host, indent: str) -> Iterator[Text]:
    """The values that a host has, then those that it has not, by reason."""
    notes, absent = host.owner.family.notes, dict[str, list[str]]()
    for name, value in host.values.items():
        reason = host.absence(name)
        if reason is not None:
            absent.setdefault(reason, []).append(name)
            continue
        note = f"; {notes[name]}" if name in notes else ""
        layout = str(host.point(name).layout)
        yield Text.assemble(indent, "(", (name, VALUE), ") -> ", (layout, LAYOUT), (f": {value.doc}{note}", QUIET))
    for reason, names in absent.items():
        yield Text.assemble(indent, "(", (", ".join(names), GONE), "): not available: ", (reason, QUIET))


def _folded(line: Text, width: int) -> Iterator[Text]:
    """A line cut at blanks to a width, what follows indented a step deeper than the line itself."""
    blanks = re.match(r" *", line.plain)
    margin = blanks.end() if blanks else 0
    room = max(width - margin - 2 * len(STEP), 20)
    body = line[margin:] if margin else line
    for at, part in enumerate(body.wrap(None, room, tab_size=4)):  # type: ignore[arg-type]  # unused
        part.rstrip()
        yield Text.assemble(" " * (margin + (2 * len(STEP) if at else 0)), part)
