"""What a wrapper row is: how images get into the token stream of a text model, as frozen data.

A wrapper puts an image tower and a projector in front of a text model, which has a row of its own.  Its row says where the
three stand, what the projector reads, and where the image enters: nearly always the features are written over the
embeddings of the image's tokens by one `masked_scatter`; some add more of them between early blocks or let blocks attend
to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nnatlas._record import Record
from nnatlas.families._row import _NONE, Cell, _caller, _checked
from nnatlas.places import Absent, absent

SCATTER: Final = "{} ~ masked_scatter[0] > in[2] : image_tokens+ hidden_size"
NO_DEEPSTACK: Final = "the image enters in front of the first block only"


class Wrapper(Record):
    """One row of facts on a wrapper.

    `vision` and `projector` are paths from the root; `tower` names the tower's row where the type of the vision config does
    not; `config` is the field that holds the vision config.  `reads` lists what the projector is fed from, as values of
    the tower: `tower_output`, `layers.-2.layer_output`, or `config.<field>` for indices into the hidden states (0: what
    enters the first block), `blocks.<field>` for numbers of blocks.  `cells` say where the image enters; `adds` in which call, and after which blocks, further
    features are added; `enters` in which one all of the stream at the image's places is replaced, and `enters_before` the
    config fields with the blocks (or pairs that end in one) before which that happens.  `image_token` is the config field with the id that stands for the image.
    `pictures` names the form in which pixels are handed in (see `tiny.pictures`), `tokens` how many tokens a picture stands
    for where the features do not tell, `marks` that a mask in the call says where they are, whatever their ids, `in_front` the attribute that says how many stand in front of the text, without ids, `tiny` what a small random wrapper needs besides, `unrun` why the type's forward
    cannot be run at all with this transformers.  `breaks` is as in a family row.
    """

    covers: tuple[str, ...] = ()
    vision: Cell = ("model.vision_tower", "model.visual", "model.vision_model", "visual", "vision_tower")
    projector: Cell = "model.multi_modal_projector"
    config: str = "vision_config"
    tower: str = ""
    reads: tuple[str, ...] = ("tower_output",)
    cells: Mapping[str, Cell] = _NONE
    adds: str = ""
    added_after: str = ""
    enters: str = ""
    enters_before: tuple[str, ...] = ()
    image_token: str = "image_token_id"
    pictures: str = "images"
    tokens: int | None = None
    marks: bool = False
    in_front: str = ""
    unrun: str = ""
    summary: str = ""
    notes: Mapping[str, str] = _NONE
    breaks: Mapping[str, str] = _NONE
    tiny: Mapping[str, Any] = _NONE

    def but(self, covers: str, *, cells: Mapping[str, Any] | None = None, **changed: Any) -> Wrapper:
        """This row with some facts changed, for other model types; `cells`, `notes`, `breaks` and `tiny` are added to."""
        file, summary = _caller()
        added = {name: {**getattr(self, name), **changed.pop(name, {})} for name in ("notes", "breaks", "tiny")}
        checked = MappingProxyType({**self.cells, **_checked(file, cells or {})})
        return self.remade(covers=tuple(covers.split()), cells=checked, summary=summary, **added, **changed)


class Without(Record):
    """Wrappers that have no tower of their own that could be served, and why."""

    covers: tuple[str, ...]
    reason: str


def scattered(module: str) -> dict[str, str]:
    """Cells of a wrapper whose forward, in `module`, writes the features over the image's embeddings in one call."""
    return {"image_features": SCATTER.format(module)}


def multiplied(module: str, factor: str) -> dict[str, str]:
    """The same where the text model multiplies all that enters by a factor: the features as they stand in its stream."""
    return {"image_features": f"{SCATTER.format(module)} * {factor}"}


USUAL: Final = Wrapper(
    cells=MappingProxyType(
        {
            **_checked(
                "_wrapper",
                {
                    **scattered("root.model"),
                    "image_token_mask": "image_token_mask()",
                    "projector_input": "block > in",
                    "projector_output": "block > out",
                },
            ),
        }
    )
)
"""The shape that wrapper rows start from: a tower, a projector and one scatter in the model under the head."""

NOTHING_READ: Final = absent("this wrapper has no projector module")

__all__ = ["NOTHING_READ", "NO_DEEPSTACK", "USUAL", "Absent", "Without", "Wrapper", "scattered"]
