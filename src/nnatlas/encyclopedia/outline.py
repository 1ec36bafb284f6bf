"""An outline: what a page must know of a built model, kept as JSON so that no page needs torch.

`outlining` makes one from the flagship's real shape on the meta device and from a run of the tiny model; each lies in
`data/outlines/<model_type>.json` with the fingerprint of the row it was made with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from nnatlas.errors import InputError
from nnatlas.values import VISION_HOSTS

FOLDER: Final = Path(__file__).parents[1] / "data" / "outlines"
DEFAULTS: Final = "the configuration class's defaults"
"""Where figures are from that no named checkpoint stands for."""
PAIRS, HALVES = "pairs", "halves"
"""How a rotary turns a head: neighbouring dimensions with each other, or the first half with the second."""
SOFTMAX: Final = "~"
"""Among the calls inside an attention or mixer: here tokens are mixed."""
WINDOW, CHUNK = "window", "chunk"
"""What limits the keys that an attention sees."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Hosts met with their row: native paths of roles, the cell each value is read at, and why others are absent.

    `roles` are paths relative to the block (or the root), `classes` the Python class that plays a role or is a host.
    `layouts` holds axes where they are the family's own.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    cells: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def has(self, *keys: str) -> bool:
        return any(key in self.cells or key in self.roles for key in keys)


@dataclass(frozen=True, slots=True)
class Variant:
    """Blocks of a stack that are alike: which they are, what they are made of, and what their like does when it runs.

    `says` is what the config's per-block lists say of them, `facts` what was measured on the tiny model's block of that
    sort: `rotates`, `turns` (pairs or halves) and `sees` (a window or a chunk).
    """

    blocks: tuple[int, ...]
    bound: Bound
    kinds: tuple[str, ...] = ()
    says: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    no_identity: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outline:
    """One model type: a named checkpoint's shape with its printout and config, and what the tiny model's run showed.

    `known` says where the figures are from; `plain` why a value takes no edit or has no gradient by its nature.  `vision` is the
    tower in front of a model that takes images, with its projector, and `in_tower` the values that the tower's blocks have.
    """

    model_type: str
    family: str
    row: str
    checkpoint: str
    known: str
    model: str
    root: Bound
    variants: tuple[Variant, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    printout: tuple[str, ...] = ()
    plain: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    drawn: str = ""
    vision: Bound = Bound()
    in_tower: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_defaults(self) -> bool:
        """Whether the figures are a configuration class's defaults, which need not be those of the checkpoint it names."""
        return self.known == DEFAULTS

    @property
    def blocks(self) -> int:
        """How many blocks the drawn stack has."""
        return sum(len(variant.blocks) for variant in self.variants)

    def at(self, host: str) -> tuple[Bound, ...]:
        """The bound hosts of a kind, one for each variant of block."""
        if host in VISION_HOSTS:
            return (self.vision,) if host in self.vision.classes else ()
        return (self.root,) if host == "model" else tuple(variant.bound for variant in self.variants)

    def served(self) -> Iterator[tuple[str, str]]:
        """Every (value's key, cell text) of every host."""
        for bound in (self.root, self.vision, *(variant.bound for variant in self.variants)):
            yield from bound.cells.items()


def to_text(outline: Outline) -> str:
    """JSON, a line for each field, and for each variant and line of the printout."""
    data = {name: value for name, value in asdict(outline).items() if value and value != asdict(Bound())}
    lines = [f"{json.dumps(name)}: {_listed(value)}" for name, value in data.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(value: Any) -> str:
    if isinstance(value, list | tuple) and value and (isinstance(value[0], dict) or len(str(value)) > 120):
        return "[\n " + ",\n ".join(_json(one) for one in value) + "\n]"
    return _json(value)


def _json(value: Any) -> str:
    plain = (
        {key: inner for key, inner in value.items() if inner or inner is False} if isinstance(value, dict) else value
    )
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> Outline:
    """The outline that `to_text` wrote."""
    data = {"checkpoint": "", **json.loads(text)}
    for name in ("printout", "facts", "in_tower"):
        data[name] = tuple(data.get(name, ()))
    data["root"], data["vision"] = (Bound(**data.get(name, {})) for name in ("root", "vision"))
    data["variants"] = tuple(_variant(one) for one in data["variants"])
    return Outline(**data)


def _variant(data: dict[str, Any]) -> Variant:
    data = {**data, "blocks": tuple(data["blocks"]), "kinds": tuple(data.get("kinds", ()))}
    return Variant(**{**data, "bound": Bound(**data["bound"])})


def kept(model_type: str, folder: Path = FOLDER) -> Outline | None:
    """A type's outline as it is kept, or None."""
    path = folder / f"{model_type}.json"
    if not path.is_file():
        return None
    try:
        return from_text(path.read_text(encoding="utf-8"))
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{path.name} in {folder.name} is no outline: {fault}; make it again") from None
