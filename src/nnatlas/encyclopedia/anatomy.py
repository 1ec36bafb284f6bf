"""The anatomy of a block: what stands where on the residual stream, put together before anything is drawn.

A block is a list of stages (see `stages`) between the embedding and the head.  Where a run showed the course of the stream, the
stages follow it; otherwise they are what the row says: attention or mixer, then the MLP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnatlas.encyclopedia.chips import NORM, NOTE, OP, SCALE, Chip, Chips, short_name
from nnatlas.encyclopedia.outline import Outline, Variant
from nnatlas.encyclopedia.stages import Stage, coursed
from nnatlas.encyclopedia.told import told
from nnatlas.families._row import Family


@dataclass(frozen=True, slots=True)
class Anatomy:
    """One sort of block between the embedding and the head.

    `caption` says in a few words what tells the sort from the others, `blocks` which blocks are of it.  `embedding` and `head`
    are the chips above and below the stack, `enters` and `leaves` the stream's names at the block's two ends.  `identity` is the
    row's sum, `no_identity` why there is none, and `streams` whether several streams run side by side.
    """

    caption: str
    blocks: tuple[int, ...]
    embedding: tuple[Chip, ...]
    enters: Chip
    stages: tuple[Stage, ...]
    leaves: Chip
    head: tuple[Chip, ...]
    identity: str
    no_identity: str
    streams: bool = False


def anatomy(outline: Outline, variant: Variant, family: Family, facts: frozenset[str]) -> Anatomy:
    """One sort of block; `facts` are the measured ones of the type."""
    chips = Chips(outline, variant, facts)
    stages = tuple(coursed(chips, variant) if variant.facts.get("course") else told(chips, variant))
    return Anatomy(
        caption=caption(variant),
        blocks=variant.blocks,
        embedding=tuple(_embedding(chips, facts)),
        enters=chips.value("block.layer_input"),
        stages=stages,
        leaves=chips.value("block.layer_output"),
        head=tuple(_head(chips, family, outline)),
        identity=variant.identity,
        no_identity=variant.no_identity,
        streams="streams" in variant.bound.sizes
        or "streams" in str(variant.bound.layouts.get("block.layer_input", "")),
    )


def caption(variant: Variant) -> str:
    """What tells this sort of block from the others, in a few words, such as `sliding, sparse, rotary`.

    Entries of the config's per-block lists come first, then the row's kinds; yes and no only where there is nothing else to say.
    """
    said = [_plain(entry) for name, entry in variant.says.items() if not _is_flag(entry)]
    flags = [
        f"{'' if entry == 'True' else 'not '}{_plain(name)}"
        for name, entry in variant.says.items()
        if entry in ("True", "False")
    ]
    words = list(dict.fromkeys([*said, *variant.kinds, *([] if said or variant.kinds else flags)]))
    turning = {True: "rotary", False: "no rotary"}.get(variant.facts.get("rotates"))  # type: ignore[arg-type]
    return ", ".join([*words, *([turning] if turning and words else [])])


def _is_flag(entry: str) -> bool:
    """Whether an entry of a per-block list says nothing by itself: a yes, a no, a number."""
    return entry in ("True", "False", "None") or entry.replace(".", "").lstrip("-").isdigit()


def _plain(word: str) -> str:
    """A config's word as one reads it: `sliding_attention` is `sliding`."""
    return word.replace("_", " ").removesuffix(" attention") if word != "attention" else word


# -- the ends ----------------------------------------------------------------------------------------------------------


def _embedding(chips: Chips, facts: frozenset[str]) -> Iterator[Chip]:
    """What makes the first block's input: looked-up rows, a factor on them, vectors of positions."""
    yield chips.value("token_embeddings", "embed_tokens")
    if "scales embeddings" in facts:
        yield Chip(
            "× scale", SCALE, "scaled embeddings", "token embeddings are multiplied by a number before the first block"
        )
    if "adds positions" in facts and "rotates" not in facts:
        yield Chip("+ positions", OP, "added positions", "a vector for each position is added to the token embeddings")


def _head(chips: Chips, family: Family, outline: Outline) -> Iterator[Chip]:
    """The steps of the readout, each module with the value that it gives."""
    if not isinstance(family.readout, str):
        yield Chip("readout", NOTE, "the readout", family.readout.reason)
    else:
        for stage in (one.strip() for one in family.readout.split("|")):
            yield from _step(chips, stage.removeprefix("maybe "), stage.startswith("maybe "), outline)
    yield chips.value("logits")


def _step(chips: Chips, stage: str, maybe: bool, outline: Outline) -> Iterator[Chip]:
    """One step of the row's readout; `maybe` steps are left out where the config's field is empty, as in the model."""
    word, _, field = stage.partition(" ")
    if field:
        given = outline.config.get(field)
        if maybe and given is None:
            return
        said = {
            "*": f"× {field}",
            "/": f"÷ {field}",
            "cap": f"cap {field}",
            "keep": f"first {field}",
            "never": f"never {short_name(field)}",
        }[word]
        yield Chip(
            said,
            SCALE,
            said,
            _STEPS[word].format(field) + (f"; {given:g} here" if isinstance(given, int | float) else ""),
        )
    elif stage == "norm":
        yield chips.value("final_norm_output", chips.native("norm"), NORM)
    elif stage == "lm_head":
        yield chips.value("lm_head_output", chips.native("lm_head"))
    else:
        yield Chip(short_name(stage).replace("_", " "), OP, stage, "a step between the last block and the head")


_STEPS = {
    "*": "the logits are multiplied by config.{}",
    "/": "the logits are divided by config.{}",
    "cap": "logits go through c·tanh(x/c) with c = config.{}",
    "keep": "only the first entries of the vocabulary, config.{}, are kept",
    "never": "tokens of {} are never given: their logits are put down to the least number",
}
