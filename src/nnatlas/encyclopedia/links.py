"""Where a page points: addresses of other pages, relative to the page's own, and the error for what leads nowhere.

Addresses are relative, so that the site works from a folder, under any path of a server, and when a single page is copied out.
A page that stands alone (`nnatlas page`) has no other pages: its links become plain text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from nnatlas.errors import InputError
from nnatlas.layouts import LAYOUTS
from nnatlas.values import RARE, VALUES, VISION

_ALL: Final = VALUES | RARE | VISION
_NAMES: Final = {value.name: key for key, value in reversed(_ALL.items()) if value.host != "linear_attn"}
KINDS: Final = ("family", "value", "layout", "trait", "source")


@dataclass(frozen=True, slots=True)
class Site:
    """What pages there are: the targets of each kind; `sources` maps a repository path to its page's address."""

    families: Collection[str] = ()
    traits: Collection[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    models: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Links:
    """Links of one page: `root` leads from it to the site's root.  A page that stands alone (`site` None) has none."""

    page: str
    root: str = ""
    site: Site | None = None

    def to(self, kind: str, name: str) -> str | None:
        """The address of a page; None where this page stands alone; `InputError` where there is no such page."""
        found = _PATHS[kind](self.site or Site(), name)
        if self.site is None:
            return None
        if found is None:
            raise InputError(f"page {self.page}: the link {kind}:{name} leads nowhere")
        return self.root + found

    def maybe(self, kind: str, name: str) -> str | None:
        """The address if there is such a page."""
        found = _PATHS[kind](self.site, name) if self.site is not None else None
        return self.root + found if found is not None else None

    def asset(self, name: str) -> str:
        """The address of a style or script."""
        return f"{self.root}assets/{name}"


def value_key(name: str) -> str | None:
    """The key of a value named with or without its host."""
    return name if name in _ALL else _NAMES.get(name)


def _family(site: Site, name: str) -> str | None:
    return f"family/{name}.html" if name in site.families else None


def _value(site: Site, name: str) -> str | None:
    key = value_key(name)
    return f"value/{key}.html" if key is not None else None


def _layout(site: Site, name: str) -> str | None:
    return f"layout/{name}.html" if name in LAYOUTS else None


def _trait(site: Site, name: str) -> str | None:
    return f"trait/{name}.html" if name in site.traits else None


def _source(site: Site, name: str) -> str | None:
    return site.sources.get(name)


_PATHS: Final = dict(zip(KINDS, (_family, _value, _layout, _trait, _source), strict=True))
