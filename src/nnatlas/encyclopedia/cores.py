"""What stands inside an attention, a mixer or an MLP: rows of chips in the order in which the forward meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nnatlas.encyclopedia.chips import OP, Chip, Chips
from nnatlas.encyclopedia.outline import CHUNK, PAIRS, WINDOW, Variant

Row = tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class Core:
    """A part of a block: its standard name, its size in a few words, and its rows."""

    name: str
    aside: str
    rows: tuple[Row, ...]


def core(chips: Chips, variant: Variant, part: str) -> Core:
    """The core of one part of a block, only with what is there."""
    aside, rows = _CORES[part]
    return Core(part, aside(variant), tuple(row for row in rows(chips, variant) if row))


def _values(chips: Chips, part: str, **texts: str) -> Row:
    """Chips of the values that are there, under short names."""
    return tuple(chips.value(f"{part}.{name}", text) for name, text in texts.items() if chips.has(f"{part}.{name}"))


def _modules(chips: Chips, *roles: str) -> Row:
    return tuple(chips.module(role) for role in roles if role in chips.variant.bound.roles)


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    yield _modules(chips, "q_proj", "k_proj", "v_proj")
    yield _values(chips, "self_attn", attention_latent="latent")
    yield _modules(chips, "q_norm", "k_norm")
    if variant.facts.get("rotates") is not False:
        yield _values(chips, "self_attn", unrotated_queries="unrotated queries", unrotated_keys="unrotated keys")
    yield tuple(_rotary(variant))
    yield _values(chips, "self_attn", attention_queries="queries", attention_keys="keys", attention_values="values")
    yield (*_values(chips, "self_attn", indexer_choice="indexer choice"), *_sight(chips, variant))
    yield _values(chips, "self_attn", attention_scores="scores", attention_probabilities="pattern")
    yield _values(chips, "self_attn", attention_head_outputs="head outputs", attention_gate="gate")
    yield _values(chips, "self_attn", attention_premix="premix", attention_head_contributions="head contributions")
    yield _modules(chips, "o_proj")


def _rotary(variant: Variant) -> Iterator[Chip]:
    rotates, turns = variant.facts.get("rotates"), variant.facts.get("turns")
    if rotates:
        how = {
            PAIRS: "neighbouring dimensions are turned together",
            "": "queries and keys are turned by their position",
        }
        said = how.get(str(turns or ""), "dimension i is turned together with i + half the width")
        yield Chip("rotary" + (", in pairs" if turns == PAIRS else ""), OP, "rotary", said)
    elif rotates is False and "self_attn" in variant.bound.classes:
        yield Chip(
            "no rotary",
            OP,
            "no rotary",
            "queries and keys enter attention as they are projected: positions come in elsewhere or not at all",
        )


def _sight(chips: Chips, variant: Variant) -> Iterator[Chip]:
    """What an attention sees."""
    sees, width = variant.facts.get("sees"), variant.facts.get("window")
    if sees == WINDOW or any("sliding" in said for said in variant.says.values()):
        yield Chip(
            f"window {width}" if width else "window",
            OP,
            "sliding window",
            "a query sees only the last keys, its own included",
        )
    elif sees == CHUNK:
        yield Chip("chunks", OP, "chunked attention", "a query sees only the keys of its own chunk")
    if "caps scores" in chips.facts:
        yield Chip("soft cap", OP, "capped scores", "scores go through c·tanh(x/c) before the softmax")
    if "sinks" in chips.facts:
        yield Chip(
            "learned sink", OP, "attention sink", "takes a share of every head's attention, in the blocks that have one"
        )


def _heads(variant: Variant) -> str:
    sizes = variant.bound.sizes
    heads, shared = sizes.get("num_heads"), sizes.get("num_kv_heads")
    if heads is None:
        return ""
    return f"{heads} heads" + (f", {shared} kv" if shared and shared != heads else "")


# -- mixers and MLPs ---------------------------------------------------------------------------------------------------


def _mixer_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    yield _values(chips, "linear_attn", conv_output="convolution")
    yield _values(chips, "linear_attn", attention_queries="queries", attention_keys="keys", attention_values="values")
    yield _values(chips, "linear_attn", time_steps="time steps", decays="decays", betas="betas")
    yield _values(chips, "linear_attn", state_input="state in", states="states", state_output="state out")
    yield _values(chips, "linear_attn", attention_head_outputs="read from state", attention_gate="gate")
    yield _values(chips, "linear_attn", attention_premix="premix")


def _mixer_aside(variant: Variant) -> str:
    return variant.bound.classes.get("linear_attn", "")


def _mlp_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    yield _values(chips, "mlp", mlp_gate="MLP gate")
    if chips.has("block.mlp_input"):
        yield (chips.value("block.mlp_input"),)
    yield _modules(chips, "router")
    yield _values(chips, "mlp", router_logits="router logits")
    yield _values(chips, "mlp", expert_indices="expert indices", expert_weights="expert weights")
    if chips.has("mlp.expert_neurons"):
        yield (*_modules(chips, "experts"), *_values(chips, "mlp", expert_neurons="expert neurons"))
    yield _values(chips, "mlp", routed_output="routed output", shared_expert_output="shared output")
    yield _modules(chips, "up_proj", "act_fn")
    yield _values(chips, "mlp", mlp_activation="activation", mlp_neurons="neurons")
    yield _modules(chips, "down_proj")


def _mlp_aside(variant: Variant) -> str:
    sizes = variant.bound.sizes
    experts, best = sizes.get("num_experts"), sizes.get("top_k")
    if experts and "mlp.expert_indices" in variant.bound.cells:
        return f"{experts} experts" + (f", {best} a token" if best else "")
    wide = sizes.get("intermediate_size")
    return f"{wide} neurons" if wide and "mlp.mlp_neurons" in variant.bound.cells else ""


_CORES: dict[str, tuple[Callable[[Variant], str], Callable[[Chips, Variant], Iterator[Row]]]] = {
    "self_attn": (_heads, _attention_rows),
    "linear_attn": (_mixer_aside, _mixer_rows),
    "mlp": (_mlp_aside, _mlp_rows),
}
