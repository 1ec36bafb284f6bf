"""`support()` as a table: a section for each host, then the values that the model does not have, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from nnatlas.model.support import Served, Support
from nnatlas.show import text_of
from nnatlas.values import host_path

WIDE = 130
"""From this width on a table has room for the layouts' names besides their axes."""


def tables(support: Support, width: int) -> Group:
    """The whole answer for a terminal of a width."""
    hosts = dict.fromkeys(row.value.host for row in support.rows.values() if not row.nowhere)
    served = Table(title=Text(support.title), title_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in ("value", "layout", "read at"):
        served.add_column(name, overflow="fold", no_wrap=name != "read at")
    for host in hosts:
        served.add_row(Text(host_path(host), "bold cyan"))
        for row in _rows(support, host):
            served.add_row(Text(f"  {row.value.name}", "green"), _layout(row, width), _place(row))
    tower = (Text(""), tables(support.tower, width)) if support.tower is not None else ()
    return Group(served, *_absent(support), *tower)


def _rows(support: Support, host: str) -> Iterator[Served]:
    return (row for row in support.rows.values() if row.value.host == host and not row.nowhere)


def _layout(row: Served, width: int) -> Text:
    if width >= WIDE or not row.layout.axes:
        return Text(str(row.layout), "yellow")
    return Text(f"[{' '.join(row.layout.axes)}]", "yellow")


def _place(row: Served) -> Text:
    """Where it is read, then what this family adds to it and the blocks that lack it."""
    said = Text(row.place.removeprefix("the module ").replace("inside the attention call: its", "attention call:"))
    if row.note:
        said.append(f"; {row.note}", "dim")
    if row.missing:
        said.append("; not in " + (row.reason or ""), "red")
    return said


def _absent(support: Support) -> Iterator[Any]:
    """What no block has, by reason."""
    reasons: dict[str, list[str]] = {}
    for key, reason in support.absent.items():
        reasons.setdefault(reason, []).append(key)
    if not reasons:
        return
    gone = Table(title=Text("\nnot available"), title_justify="left", box=None, pad_edge=False, show_header=False)
    gone.add_column(overflow="fold", ratio=2)
    gone.add_column(overflow="fold", ratio=3)
    for reason, names in reasons.items():
        gone.add_row(Text("  " + "\n  ".join(names), "red"), Text(reason))
    yield gone


def support_text(support: Support) -> str:
    """The whole answer as plain text."""
    return text_of(support)


def support_html(support: Support) -> str:
    """The same as an HTML fragment."""
    hosts = dict.fromkeys(row.value.host for row in support.rows.values() if not row.nowhere)
    body = "".join(
        f"<tr><th colspan='3' style='text-align:left;padding-top:.6em'>{escape(host_path(host))}</th></tr>"
        + "".join(_html_row(row.value.name, str(row.layout), _place(row).plain) for row in _rows(support, host))
        for host in hosts
    )
    gone = "".join(_html_row(key, "not available", reason) for key, reason in support.absent.items())
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("value", "layout", "read at"))
    tower = support_html(support.tower) if support.tower is not None else ""
    return (
        f"<table><caption>{escape(support.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        f"<tbody style='opacity:.65'>{gone}</tbody></table>{tower}"
    )


def _html_row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in cells) + "</tr>"
