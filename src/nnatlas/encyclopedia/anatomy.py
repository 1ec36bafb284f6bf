"""The anatomy of a block: what stands where on the residual stream, read off a row and an outline, before anything is drawn.

A block is a list of stages.  A stage is one branch, or several that read the same stream (a parallel block, attention beside a
mixer); a branch leaves the stream, passes norms and a core, and is added back.  A core is rows of chips: values, modules and
small operations in the order in which the forward meets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnatlas import places
from nnatlas.encyclopedia.chips import NORM, NOTE, OP, SCALE, Chip, Chips, short_name
from nnatlas.encyclopedia.cores import Core, core
from nnatlas.encyclopedia.outline import Outline, Variant
from nnatlas.families._row import Family
from nnatlas.places import Factor, Term

PARTS = {
    "attention_output": "self_attn",
    "self_attn.attention_output": "self_attn",
    "linear_attn.attention_output": "linear_attn",
    "mlp_output": "mlp",
    "mlp.mlp_output": "mlp",
}
"""The part of a block whose contribution a summand of the identity is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What leaves the stream and is added back: chips on the way in, the core, chips on the way out, the contribution."""

    before: tuple[Chip, ...]
    core: Core
    after: tuple[Chip, ...]
    adds: Chip


@dataclass(frozen=True, slots=True)
class Stage:
    """Branches that read the same stream, a norm that they share, and what stands on the stream after they are added."""

    shared: tuple[Chip, ...]
    branches: tuple[Branch, ...]
    then: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class Anatomy:
    """One sort of block between the embedding and the head.  `caption` names the sort, `identity` is its sum in words."""

    caption: str
    blocks: tuple[int, ...]
    embedding: tuple[Chip, ...]
    enters: Chip
    stages: tuple[Stage, ...]
    middle: Chip | None
    leaves: Chip
    head: tuple[Chip, ...]
    identity: str
    no_identity: str
    streams: bool = False


def anatomy(outline: Outline, variant: Variant, family: Family, facts: frozenset[str]) -> Anatomy:
    """One sort of block; `facts` are the measured ones of the type."""
    chips = Chips(outline, variant, facts)
    stages = tuple(_stages(chips, variant))
    return Anatomy(
        caption=caption(variant),
        blocks=variant.blocks,
        embedding=tuple(_embedding(chips, facts)),
        enters=chips.value("block.layer_input"),
        stages=stages,
        middle=chips.value("block.layer_mid") if chips.has("block.layer_mid") else None,
        leaves=chips.value("block.layer_output"),
        head=tuple(_head(chips, family, outline)),
        identity=variant.identity,
        no_identity=variant.no_identity,
        streams="streams" in variant.bound.sizes
        or "streams" in str(variant.bound.layouts.get("block.layer_input", "")),
    )


def caption(variant: Variant) -> str:
    """What tells this sort of block from the others, in a few words."""
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
    return word.replace("_", " ").removesuffix(" attention") if word != "attention" else word


# -- the block ---------------------------------------------------------------------------------------------------------


def _stages(chips: Chips, variant: Variant) -> Iterator[Stage]:
    """The branches by the order in which they are added; those that read the same stream together."""
    terms = _terms(variant)
    mixers = [term for term in terms if _part(term) in ("self_attn", "linear_attn")]
    others = [term for term in terms if term not in mixers]
    mlps = [term for term in others if _part(term) == "mlp"]
    extras = [term for term in others if _part(term) != "mlp"]
    after = tuple(_scales(chips, _whole(variant)))
    if mixers and mlps and _parallel(variant):
        yield _stage(chips, variant, [*mixers, *mlps], chips.after_sum("layer_output") + (() if extras else after))
    else:
        groups = [group for group in (mixers, mlps) if group]
        for at, group in enumerate(groups):
            last = at == len(groups) - 1 and not extras
            yield _stage(
                chips,
                variant,
                group,
                chips.after_sum("layer_output" if last else "layer_mid") + (after if last else ()),
            )
    for at, term in enumerate(extras):
        yield _stage(chips, variant, [term], after if at == len(extras) - 1 else ())


def _terms(variant: Variant) -> list[Term]:
    """The summands that are added to the stream; without an identity, whatever parts the block has."""
    if variant.identity:
        terms = places.identity(variant.identity)[:-1]
        return [_of_its_part(term, variant) for term in terms if term.value != "layer_input"]
    bound = variant.bound
    names = ("self_attn.attention_output", "linear_attn.attention_output", "mlp.mlp_output")
    return [Term(name) for name in names if name in bound.cells]


def _of_its_part(term: Term, variant: Variant) -> Term:
    """`attention_output` is what the block's mixer adds, where the block has no attention."""
    mixes = term.value == "attention_output" and "self_attn.attention_output" not in variant.bound.cells
    return term.remade(value="linear_attn.attention_output") if mixes else term


def _whole(variant: Variant) -> tuple[Factor, ...]:
    """Factors on the sum as a whole, as they act on it: the identity states them on its other side."""
    stated = places.identity(variant.identity)[-1].factors if variant.identity else ()
    return tuple(factor.remade(divides=not factor.divides) for factor in stated)


def _part(term: Term) -> str:
    return PARTS.get(term.value, "")


def _parallel(variant: Variant) -> bool:
    return "block.layer_mid" in variant.bound.absent and not variant.no_identity


def _stage(chips: Chips, variant: Variant, terms: list[Term], then: tuple[Chip, ...]) -> Stage:
    roles = variant.bound.roles
    norms = [_norm_of(_part(term)) for term in terms]
    paths = {roles.get(norm, "") for norm in norms}
    shared = len(terms) > 1 and len(paths) == 1 and "" not in paths
    branches = tuple(_branch(chips, variant, term, shared) for term in terms)
    return Stage((chips.norm(norms[0]),) if shared else (), branches, then)


def _norm_of(part: str) -> str:
    return "mlp_norm" if part == "mlp" else "attention_norm"


def _branch(chips: Chips, variant: Variant, term: Term, shared: bool) -> Branch:
    part, bound = _part(term), variant.bound
    if not part:
        place = term.place.text if term.place else term.value
        return Branch((), Core("further branch", "", ()), tuple(_scales(chips, term.factors)), chips.at(place))
    key = f"{part}.{'mlp_output' if part == 'mlp' else 'attention_output'}"
    norm, post = _norm_of(part), "mlp_post_norm" if part == "mlp" else "attention_post_norm"
    own = places.parse(bound.cells[key]) if key in bound.cells else None
    before = (chips.norm(norm),) if norm in bound.roles and not shared else ()
    after = [chips.norm(post)] if post in bound.roles else []
    after += _scales(chips, own.factors if own else ())
    after += _scales(chips, term.factors)
    return Branch(before, core(chips, variant, part), tuple(after), chips.value(key))


def _scales(chips: Chips, factors: tuple[Factor, ...]) -> list[Chip]:
    return [chips.factor(factor) for factor in factors]


# -- the ends ----------------------------------------------------------------------------------------------------------


def _embedding(chips: Chips, facts: frozenset[str]) -> Iterator[Chip]:
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
    word, _, field = stage.partition(" ")
    if field:
        given = outline.config.get(field)
        if maybe and given is None:
            return
        said = {"*": f"× {field}", "/": f"÷ {field}", "cap": f"cap {field}", "keep": f"first {field}"}[word]
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
}
