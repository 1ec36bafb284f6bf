"""Chips: the parts of a drawing that one can point at, each with the card that opens for it.

A chip knows nothing of where it will stand: it is what is written on it, how it looks (its tone), and what its card says.  The
card of a value that is served is read from its row of the tables, so that drawing and table cannot say different things.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnatlas.encyclopedia.outline import Bound, Outline, Variant
from nnatlas.encyclopedia.words import place_words
from nnatlas.families._row import ROLES
from nnatlas.places import Factor
from nnatlas.values import RARE, VALUES, host_path

VALUE, MODULE, NORM, OP, SCALE, NOTE = "value", "module", "norm", "op", "scale", "note"
"""Tones: what a chip is, which decides how it looks."""

ROLE_LINES: Final = {
    "attention_norm": "norms the stream before the attention or mixer reads it",
    "mlp_norm": "norms the stream before the MLP reads it",
    "attention_post_norm": "norms what the attention or mixer wrote, before it is added",
    "mlp_post_norm": "norms what the MLP wrote, before it is added",
    "q_norm": "norms the queries",
    "k_norm": "norms the keys",
    "q_proj": "projects what the attention reads to queries",
    "k_proj": "projects what the attention reads to keys",
    "v_proj": "projects what the attention reads to values",
    "o_proj": "projects the heads' outputs back to the width of the stream",
    "up_proj": "widens the stream to the MLP's neurons",
    "down_proj": "projects the neurons back to the width of the stream",
    "act_fn": "the activation function",
    "router": "scores the experts for each token",
    "experts": "the routed experts",
    "shared_experts": "experts that see every token",
}
"""What each role does, in one line."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One part: what is written on it, its tone, and its card.

    `title` is the name to type or the module's path, `line` one sentence; a value also has its `layout` (axes), its `place` in
    words and its `key`, by which the card finds the value's row.
    """

    text: str
    tone: str
    title: str
    line: str
    layout: str = ""
    place: str = ""
    key: str = ""


def short_name(path: str) -> str:
    """The last part of a module's path; of a module in a list, with the list's name.

    >>> short_name("model.layers.0.norms.1"), short_name("self_attn.o_proj")
    ('norms.1', 'o_proj')
    """
    head, _, last = path.rpartition(".")
    return f"{head.rpartition('.')[2]}.{last}" if last.isdigit() and head else last


class Chips:
    """Makes the chips of one sort of block.

    `variant` is that sort with what was bound there; `facts` are the type's as a whole, such as that scores are capped.
    """

    def __init__(self, outline: Outline, variant: Variant, facts: frozenset[str] = frozenset()) -> None:
        self.outline, self.variant, self.facts = outline, variant, facts

    def bound(self, key: str) -> Bound:
        """Where a value hangs: the root or the block."""
        return self.outline.root if (VALUES | RARE)[key].host == "model" else self.variant.bound

    def has(self, key: str) -> bool:
        """Whether a value is served here: on the root for the model's own, else on this sort of block."""
        return key in self.bound(key).cells

    def value(self, key: str, text: str = "", tone: str = VALUE) -> Chip:
        """The chip of a value; one that is not served says why."""
        value, bound = (VALUES | RARE)[key], self.bound(key)
        layout = bound.layouts.get(key, str(value.layout))
        if key not in bound.cells:
            why = bound.absent.get(key, "this block has no such part")
            return Chip(text or value.name, NOTE, value.typed, f"not available: {why}", key=key)
        place = place_words(bound.cells[key], bound, self.outline.root)
        return Chip(text or value.name, tone, value.typed, value.doc, layout, place, key)

    def norm(self, role: str) -> Chip:
        """A norm under its native name; its card is its output's where that is a value of its own."""
        key = {"attention_norm": "block.attention_norm_output", "mlp_norm": "block.mlp_norm_output"}.get(role, "")
        native = self.native(role)
        if key and self.has(key):
            return self.value(key, native, NORM)
        return self.module(role, NORM)

    def module(self, role: str, tone: str = MODULE) -> Chip:
        """A module by its role, under its native name."""
        typed = f"{host_path(ROLES[role])}.{role}"
        return Chip(self.native(role), tone, typed, self._line(role))

    def _line(self, role: str) -> str:
        made_by = self.variant.bound.classes.get(role, "")
        return ROLE_LINES.get(role, role) + (f" ({made_by})" if made_by else "")

    def native(self, role: str) -> str:
        """The native name of what plays a role, without what it hangs on."""
        bound = self.outline.root if ROLES.get(role) == "model" else self.variant.bound
        return short_name(bound.roles.get(role, "")) or role

    def factor(self, factor: Factor) -> Chip:
        """A number that something is multiplied or divided by."""
        given = self.outline.config.get(factor.name)
        worth = f"; {given:g} here" if isinstance(given, int | float) and not isinstance(given, bool) else ""
        short = factor.said.replace(factor.name, factor.name.rpartition(".")[2]).replace("sqrt", "√")
        said = f"{'÷' if factor.divides else '×'} {short}"
        return Chip(
            said, SCALE, factor.said, f"{'divided' if factor.divides else 'multiplied'} by {factor.said}{worth}"
        )

    def scale(self, by_channel: bool) -> Chip:
        """A scale that was seen where the row names none."""
        said = "by another number in every channel" if by_channel else "by a number"
        return Chip("× by channel" if by_channel else "× scale", SCALE, "a scale", f"multiplied {said}")

    def gate(self) -> Chip:
        """A learned weight on what a branch adds, by the row's words."""
        return Chip("learned gate", OP, "a learned gate", self.variant.no_identity)

    def mixed(self) -> Chip:
        """In place of a sum, where stream and branch do not simply add up."""
        return Chip("mixed in", OP, "no plain sum", self.variant.no_identity or "mixed into the stream")

    def native_module(self, path: str, tone: str = "") -> Chip:
        """A module that plays no role, by its path below the block."""
        made_by = self.variant.facts.get("modules", {}).get(path, "")
        line = (
            f"a module of the block that plays no role of its own ({made_by})" if made_by else "a module of the block"
        )
        return Chip(short_name(path), tone or MODULE, f"model.layers[i].{path}", line)

    def after_sum(self, name: str) -> tuple[Chip, ...]:
        """A norm on the stream itself, where every sum is normed: nothing norms before or after the sublayers."""
        norms = {"attention_norm", "mlp_norm", "attention_post_norm", "mlp_post_norm"}
        normed = (
            self.variant.no_identity
            and "normed" in self.variant.no_identity
            and not norms & self.variant.bound.roles.keys()
        )
        return (Chip("norm of the sum", NORM, name, self.variant.no_identity),) if normed else ()
