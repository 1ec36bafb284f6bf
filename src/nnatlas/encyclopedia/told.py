"""Stages of a block that no run has shown: what its row says, attention or mixer and then the MLP, each with its norms.

This serves types whose tiny model never enters the block (cross-attention waits for an image) and outlines made without a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnatlas import places
from nnatlas.encyclopedia.chips import Chips
from nnatlas.encyclopedia.cores import core
from nnatlas.encyclopedia.outline import Variant
from nnatlas.encyclopedia.stages import ADDED, Branch, Part, Stage, whole

_NORMS = {
    "self_attn": ("attention_norm", "attention_post_norm"),
    "linear_attn": ("attention_norm", "attention_post_norm"),
    "mlp": ("mlp_norm", "mlp_post_norm"),
}
"""The norms before and after each part."""


def told(chips: Chips, variant: Variant) -> Iterator[Stage]:
    """The parts that the block has; those of a parallel block together, as are an attention and a mixer.

    A block counts as parallel where its row says that there is no stream between attention and MLP and yet has an identity.
    """
    parts = {part: key for key, part in ADDED.items() if part in variant.bound.classes}
    mixers = [key for part, key in parts.items() if part != "mlp"]
    groups = [group for group in (mixers, [parts["mlp"]] if "mlp" in parts else []) if group]
    if len(groups) == 2 and "block.layer_mid" in variant.bound.absent and not variant.no_identity:
        groups = [[*groups[0], *groups[1]]]
    for at, group in enumerate(groups):
        yield _stage(chips, variant, group, at == 0, at == len(groups) - 1)


def _stage(chips: Chips, variant: Variant, keys: list[str], first: bool, last: bool) -> Stage:
    """One group of parts; a norm that all of them read is drawn once."""
    norms = {variant.bound.roles.get(_NORMS[ADDED[key]][0], "") for key in keys}
    shared = len(keys) > 1 and len(norms) == 1 and "" not in norms
    then = chips.after_sum("layer_output" if last else "layer_mid")
    then += tuple(chips.factor(one) for one in whole(variant)) if last else ()
    named = first and not last and chips.has("block.layer_mid")
    return Stage(
        tuple(_branch(chips, variant, key, shared) for key in keys),
        shared=(chips.norm(_NORMS[ADDED[keys[0]]][0]),) if shared else (),
        then=then,
        named=chips.value("block.layer_mid") if named else None,
    )


def _branch(chips: Chips, variant: Variant, key: str, shared: bool) -> Branch:
    """Norm in front, the part, norm behind, factors, and the gate that the row's words mention."""
    part, bound = ADDED[key], variant.bound
    before, after = _NORMS[part]
    parts: list[Part] = [chips.norm(before)] if before in bound.roles and not shared else []
    parts.append(core(chips, variant, part))
    parts += [chips.norm(after)] if after in bound.roles else []
    parts += [chips.factor(one) for one in (places.parse(bound.cells[key]).factors if key in bound.cells else ())]
    parts += [chips.gate()] if "gate" in variant.no_identity else []
    return Branch(tuple(parts), chips.value(key))
