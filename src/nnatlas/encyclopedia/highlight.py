"""Source code as HTML with CSS classes, by Pygments."""

from __future__ import annotations

from functools import cache
from typing import Any

from markupsafe import Markup


@cache
def _tools() -> tuple[Any, Any, Any]:
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return PythonLexer(stripnl=False), HtmlFormatter(nowrap=True), HtmlFormatter


def python(code: str) -> Markup:
    """Python as spans that `syntax.css` colours, every character escaped.

    >>> python("x = 1")
    Markup('<span class="n">x</span> <span class="o">=</span> <span class="mi">1</span>')
    """
    from pygments import highlight

    lexer, formatter, _ = _tools()
    return Markup(highlight(code, lexer, formatter).rstrip("\n"))
