"""What a family row is: roles, values, kinds of block, readout and residual identity, as frozen data.

A row is a shape (see `_shapes`) with some cells changed by `but`, or another family's row with some changed by `twin`.  Cells are checked when the row is made: an unknown name
or (as soon as the row is used) a cell that the place language cannot read is an error that names the family file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nnatlas import places
from nnatlas._record import Record
from nnatlas.errors import PlaceError
from nnatlas.places import Absent
from nnatlas.values import RARE, VALUES, VISION

ROLES: Final = {
    "base": "model",
    "layers": "model",
    "embed_tokens": "model",
    "norm": "model",
    "lm_head": "model",
    "self_attn": "block",
    "linear_attn": "block",
    "mlp": "block",
    "attention_norm": "block",
    "mlp_norm": "block",
    "attention_post_norm": "block",
    "mlp_post_norm": "block",
    "q_proj": "self_attn",
    "k_proj": "self_attn",
    "v_proj": "self_attn",
    "o_proj": "self_attn",
    "q_norm": "self_attn",
    "k_norm": "self_attn",
    "up_proj": "mlp",
    "down_proj": "mlp",
    "act_fn": "mlp",
    "router": "mlp",
    "experts": "mlp",
    "shared_experts": "mlp",
}
"""Each role and the host that its path starts from.  `block.` or `root.` in front of a path starts there instead."""

TOWER_ROLES: Final = ("layers", "patch_embed", "pre_norm", "norm")
"""What a tower of image patches has around its blocks; the paths start from the tower."""

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

Cell = str | Absent | tuple[str | Absent, ...]
"""A place or path; alternatives in order, of which the first that the live module has counts; or an absence with its reason."""


class Kind(Record):
    """A sub-row for the blocks that meet a condition.

    Conditions, joined by `and`: `has <path>`, `lacks <path>` (in the block), `config.<field>` (true), `not config.<field>`,
    `config.<field> = <word>`; a config field that is a list is asked at the block's index.  `or` parts such conditions.
    """

    name: str
    when: str
    cells: Mapping[str, Cell]
    identity: str | Absent | None = None


class Family(Record):
    """One row of facts: everything nnatlas knows about a model type before it sees a module."""

    name: str
    covers: tuple[str, ...] = ()
    cells: Mapping[str, Cell] = _NONE
    kinds: tuple[Kind, ...] = ()
    readout: str | Absent = "norm | lm_head"
    identity: str | Absent = "layer_input + attention_output + mlp_output = layer_output"
    shape: str = ""
    changed: frozenset[str] = frozenset()
    tiny: Mapping[str, Any] = _NONE
    sizes: Mapping[str, str] = _NONE
    looped: bool = False
    counts_positions: bool = False
    summary: str = ""
    notes: Mapping[str, str] = _NONE
    passes: tuple[str, ...] = ()
    breaks: Mapping[str, str] = _NONE
    defined_in: str = ""
    axes: Mapping[str, str] = _NONE
    kin: str = ""

    def parsed(self) -> Family:
        """This row, once every cell of it could be read; the table as a whole is only read, not parsed.

        Errors: `PlaceError` with the file, the cell and a caret under the fault.
        """
        for cells in (self.cells, *(kind.cells for kind in self.kinds)):
            _parsed(self.name, cells)
        return self

    @property
    def counts_operations(self) -> bool:
        """Whether any cell is a place at a torch function."""
        texts = [self.cells, *(kind.cells for kind in self.kinds)]
        return any("~" in str(cell) for cells in texts for cell in cells.values())

    @property
    def names_calls(self) -> bool:
        """Whether any cell is a place at a Python function's call."""
        texts = [self.cells, *(kind.cells for kind in self.kinds)]
        return any(" calls " in str(cell) for cells in texts for cell in cells.values())

    def but(
        self,
        *,
        name: str = "",
        covers: str = "",
        kinds: tuple[Kind, ...] = (),
        readout: str | Absent | None = None,
        identity: str | Absent | None = None,
        tiny: Mapping[str, Any] | None = None,
        sizes: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
        looped: bool = False,
        counts_positions: bool = False,
        passes: str = "",
        breaks: Mapping[str, str] | None = None,
        defined_in: str = "",
        axes: Mapping[str, str] | None = None,
        **cells: Cell | Mapping[str, Cell],
    ) -> Family:
        """This shape with some cells changed; kinds are added after the shape's own, and the later one wins.

        A kind of a name that the shape has too changes only some cells of that kind (and its condition).
        `notes` adds a family's own sentence to a value's description; `tiny` holds the config fields that a small random
        model of the type needs besides the generic ones; `sizes` says where a size stands that the projections do not tell;
        `looped` that the stack is run more than once in a forward, or has parts outside its blocks; `counts_positions` that
        the model counts positions by its padding id and takes handed-in ones for something else; `passes` lists modules and parameters that no role names
        and no value needs (`root.`, `base.` or `block.` in front, `*` for any part of a name); `breaks` says which law does
        not hold here and why, by `"law"` or `"law value"` (`{"batch": "its convolution runs over the padding"}`);
        `defined_in` names the Python module that makes a type known to transformers which it does not bring itself; `axes`
        says what a tower has in place of `batch` and `seq` (see `families.towers`).
        """
        file, summary = _caller()
        changed = _checked(file, cells)
        return self.remade(
            name=name or file,
            covers=tuple(covers.split()) or (file,),
            cells=MappingProxyType({**self.cells, **changed}),
            kinds=_joined(self.kinds, kinds),
            readout=self.readout if readout is None else readout,
            identity=self.identity if identity is None else identity,
            shape=self.name,
            changed=frozenset(changed),
            tiny=tiny or self.tiny,
            sizes={**self.sizes, **(sizes or {})},
            looped=looped,
            counts_positions=counts_positions,
            summary=summary,
            notes={**self.notes, **(notes or {})},
            passes=self.passes + tuple(passes.split()),
            breaks={**self.breaks, **(breaks or {})},
            defined_in=defined_in,
            axes={**self.axes, **(axes or {})},
        )


    def twin(self, **changed: Any) -> Family:
        """The row of another family that is this one, but for what is given (in the words of `but`): `OPT.twin(covers="blip-2")`.

        `kin` names the family it takes after.  There is no twin of a twin, so that a reader has one other file to look at.
        """
        if self.kin:
            raise PlaceError(f"families/{_caller()[0]}.py: {self.name} is itself a twin, of {self.kin}: take that one's row")
        kept = {"looped": self.looped, "counts_positions": self.counts_positions}
        made = self.but(**(kept | changed))
        return made.remade(shape=self.shape, changed=self.changed | made.changed, kin=self.name)


def kind(name: str, when: str, identity: str | Absent | None = None, **cells: Cell | Mapping[str, Cell]) -> Kind:
    """Cells that hold on the blocks meeting `when`; the kind's name is what `support()` shows."""
    return Kind(name, when, MappingProxyType(_checked(_caller()[0], cells)), identity)


def _joined(shape: tuple[Kind, ...], own: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Kinds by name, in order; an own kind is laid over the shape's of the same name."""
    found = {kind.name: kind for kind in shape}
    for kind in own:
        below = found.get(kind.name)
        found[kind.name] = kind if below is None else kind.remade(cells={**below.cells, **kind.cells})
    return tuple(found.values())


def _caller() -> tuple[str, str]:
    """File name and first docstring line of the family file that is being read."""
    frame = sys._getframe(2)
    while frame.f_globals is globals() and frame.f_back is not None:  # called from here: a twin
        frame = frame.f_back
    names = frame.f_globals
    return names.get("__name__", "?").rpartition(".")[2].lstrip("_"), (names.get("__doc__") or "").strip()


_COMMON = {value.name: key for key, value in reversed(VALUES.items()) if value.host != "linear_attn"}
_KEYS: Final = _COMMON | {value.name: key for key, value in RARE.items()}
_TOWER_KEYS: Final = {value.name: key for key, value in VISION.items()}


def _checked(family: str, cells: Mapping[str, Any]) -> dict[str, Cell]:
    """Cells by role name or value key."""
    found: dict[str, Cell] = {}
    for name, cell in cells.items():
        if name == "linear_attn" and isinstance(cell, Mapping):
            found |= {f"linear_attn.{key}" if key != "path" else name: inner for key, inner in cell.items()}
        elif name in ROLES or name in _KEYS:
            found[_KEYS.get(name, name)] = cell
        elif name in TOWER_ROLES or name in _TOWER_KEYS:
            found[_TOWER_KEYS.get(name, name)] = cell
        else:
            import difflib  # only for this error: the table of families is to be read quickly

            close = difflib.get_close_matches(name, [*ROLES, *_KEYS], 3)
            raise PlaceError(f"families/{family}.py: {name!r} is neither a role nor a value; near: {', '.join(close)}")
    return found


def _parsed(family: str, cells: Mapping[str, Cell]) -> None:
    """Parse every cell that is a place; a fault is an error that names the file and the cell."""
    for key, cell in cells.items():
        for alternative in cell if isinstance(cell, tuple) else (cell,):
            if isinstance(alternative, str) and key not in ROLES and key not in TOWER_ROLES:
                try:
                    places.parse(alternative)
                except PlaceError as fault:
                    raise PlaceError(f"families/{family}.py, cell {key}: {fault}") from None
