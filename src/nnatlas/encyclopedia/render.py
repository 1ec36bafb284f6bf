"""From a page model to HTML: Jinja templates with every string escaped, and the site's own styles and scripts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nnatlas.encyclopedia import charts
from nnatlas.encyclopedia.links import Links

HERE: Final = Path(__file__).parent
ASSETS: Final = HERE / "assets"
STYLES: Final = ("theme.css", "layout.css", "content.css", "drawing.css", "syntax.css")
SCRIPTS: Final = ("theme.js",)


@cache
def environment() -> Environment:
    """The templates; an unknown name in one is an error."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["short_number"] = short_number
    made.filters["soft"] = soft
    made.filters["short"] = charts.short
    made.filters["capitalize_first"] = capitalize_first
    return made


def render(template: str, links: Links, **facts: Any) -> str:
    """A page as HTML.  One that stands alone carries its styles and scripts inside."""
    alone = links.site is None
    inside = {name: Markup((ASSETS / name).read_text(encoding="utf-8")) for name in assets()} if alone else {}
    return environment().get_template(template).render(links=links, inside=inside, styles=STYLES, **facts)


def assets() -> list[str]:
    """The names of the styles and scripts."""
    return sorted(path.name for path in ASSETS.iterdir() if path.suffix in (".css", ".js"))


def number(value: Any) -> str:
    """`131072` as `131,072`; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value >= 10_000 else str(value)


def short_number(value: float) -> str:
    """A coordinate with at most one decimal: `178`, `182.5`."""
    return f"{value:.1f}".removesuffix(".0")


def soft(name: str) -> Markup:
    """A long name that may be broken after its underscores and dots.

    >>> soft("a_b")
    Markup('a_<wbr>b')
    """
    escaped = str(Markup.escape(name))
    return Markup(escaped.replace("_", "_<wbr>").replace(".", ".<wbr>"))


def capitalize_first(said: str) -> str:
    """A sentence's first letter as a capital; names of the field (RMS) keep theirs."""
    return said[:1].upper() + said[1:]
