"""What stands inside an attention, a mixer or an MLP: rows of chips in the order in which the forward meets them.

    q_proj   k_proj   v_proj          modules, as a run called them
    unrotated queries   unrotated keys
    rotary                            an operation
    queries   keys   values           values, as they enter the attention
    window 4096   learned sink        what limits it or takes a share
    scores   pattern
    head outputs   gate
    premix   head contributions
    o_proj

A row appears only with what the outline has: the order is fixed here, presence never is.  Modules are taken from the run of the
tiny model, so that latent projections, sub-norms and gates are there without any row naming them; those called after the pattern
is made stand below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nnatlas.encyclopedia.chips import MODULE, NORM, OP, Chip, Chips, short_name
from nnatlas.encyclopedia.outline import CHUNK, PAIRS, SOFTMAX, WINDOW, Variant
from nnatlas.families._row import ROLES

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
    return Core(part, _beside(part, aside(variant)), tuple(row for row in rows(chips, variant) if row))


def _beside(name: str, aside: str) -> str:
    """What stands beside a core's name, if there is room: a frame is 268 wide, a letter of the name 8 and of the aside 6."""
    return aside if 8 * len(name) + 6 * len(aside) < 236 else ""


def other_core(chips: Chips, path: str, inside: Sequence[str]) -> Core:
    """A part that plays no role, such as a second attention: its class and the modules inside it by their order."""
    made_by = chips.variant.facts.get("modules", {}).get(path, "")
    named = tuple(chips.native_module(f"{path}.{name}", NORM if "norm" in name else "") for name in inside)
    return Core(short_name(path), _beside(short_name(path), made_by), (named,))


def _values(chips: Chips, part: str, **texts: str) -> Row:
    """Chips of the values that are there, under short names."""
    return tuple(chips.value(f"{part}.{name}", text) for name, text in texts.items() if chips.has(f"{part}.{name}"))


def _modules(chips: Chips, *roles: str) -> Row:
    """Modules by their roles, as far as the block has them."""
    return tuple(chips.module(role) for role in roles if role in chips.variant.bound.roles)


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    """From the projections to the output projection.

    Where nothing is turned, the values before the rotary are those after it, and are drawn once.
    """
    late = _norms_after_rotary(variant)
    before, after = _around(_called(chips, "self_attn", "o_proj", *(("q_norm", "k_norm") if late else ())))
    yield before
    yield _values(chips, "self_attn", attention_latent="latent")
    if variant.facts.get("rotates") is not False:
        yield _values(chips, "self_attn", unrotated_queries="unrotated queries", unrotated_keys="unrotated keys")
    yield tuple(_rotary(variant))
    if late:
        yield _modules(chips, "q_norm", "k_norm")
    yield _values(chips, "self_attn", attention_queries="queries", attention_keys="keys", attention_values="values")
    yield (*_values(chips, "self_attn", indexer_choice="indexer choice"), *_sight(chips, variant))
    yield _values(chips, "self_attn", attention_scores="scores", attention_probabilities="pattern")
    yield _values(chips, "self_attn", attention_head_outputs="head outputs", attention_gate="gate")
    yield after
    yield _values(chips, "self_attn", attention_premix="premix", attention_head_contributions="head contributions")
    yield _modules(chips, "o_proj")


def _norms_after_rotary(variant: Variant) -> bool:
    """Whether queries are normed only after they are turned: before that, they are the projection's output."""
    before = variant.bound.cells.get("self_attn.unrotated_queries", "")
    return "q_norm" in variant.bound.roles and before.startswith("q_proj >")


def _around(called: Row) -> tuple[Row, Row]:
    """The modules called before the pattern is made, and those called after."""
    marks = [at for at, chip in enumerate(called) if chip.text == SOFTMAX]
    first = marks[0] if marks else len(called)
    return called[:first], tuple(chip for chip in called[first:] if chip.text != SOFTMAX)


def _called(chips: Chips, part: str, *last: str) -> Row:
    """The modules that a part calls, in the order of a run, without those that stand elsewhere in the drawing."""
    bound = chips.variant.bound
    path = bound.roles.get(part, part)
    roles = {bound.roles[role]: role for role in ROLES if role in bound.roles and ROLES[role] == part}
    chosen = []
    for name in chips.variant.facts.get("calls", {}).get(path, ()):
        own = f"{path}.{name}"
        role = next((role for at, role in roles.items() if at == own or at.startswith(f"{own}.")), "")
        if role not in last and (name != SOFTMAX or part != "mlp"):
            tone = NORM if "norm" in name else MODULE
            chosen.append(chips.module(role, tone) if role else chips.native_module(f"{path}.{name}", tone))
    return tuple(chosen) or _modules(
        chips, *(role for role, host in ROLES.items() if host == part and role not in last)
    )


def _rotary(variant: Variant) -> Iterator[Chip]:
    """Whether queries and keys are turned, and how; nothing where no run has shown it."""
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
    if "caps scores" in chips.facts and variant.facts.get("caps"):
        yield Chip("soft cap", OP, "capped scores", "scores go through c·tanh(x/c) before the softmax")
    if variant.facts.get("sinks"):
        yield Chip("learned sink", OP, "attention sink", "a learned logit per head takes a share of its attention")


def _heads(variant: Variant) -> str:
    """How many heads there are, and how many of keys and values where they are shared."""
    sizes = variant.bound.sizes
    heads, shared = sizes.get("num_heads"), sizes.get("num_kv_heads")
    if heads is None:
        return ""
    return f"{heads} heads" + (f", {shared} kv" if shared and shared != heads else "")


# -- mixers and MLPs ---------------------------------------------------------------------------------------------------


def _mixer_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    """A recurrent mixer: projections, what is written and read, the state, and the way out."""
    before, after = _around(_called(chips, "linear_attn"))
    before, after = (before, after) if after else (before[:-1], before[-1:])  # the last one projects back to the stream
    yield before
    yield _values(chips, "linear_attn", conv_output="convolution")
    yield _values(chips, "linear_attn", attention_queries="queries", attention_keys="keys", attention_values="values")
    yield _values(chips, "linear_attn", time_steps="time steps", decays="decays", betas="betas")
    yield _values(chips, "linear_attn", state_input="state in", states="states", state_output="state out")
    yield _values(chips, "linear_attn", attention_head_outputs="read from state", attention_gate="gate")
    yield after[:-1]
    yield _values(chips, "linear_attn", attention_premix="premix")
    yield after[-1:]


def _mixer_aside(variant: Variant) -> str:
    """Mixers differ more than their sizes tell: the class says which it is."""
    return variant.bound.classes.get("linear_attn", "")


def _mlp_rows(chips: Chips, variant: Variant) -> Iterator[Row]:
    """A dense MLP or a mixture; a mixture beside a dense MLP has the rows of both."""
    if chips.has("block.mlp_input"):
        yield (chips.value("block.mlp_input"),)
    yield _values(chips, "mlp", mlp_gate="MLP gate")
    yield from _mixture_rows(chips) if chips.has("mlp.router_logits") else ()
    if chips.has("mlp.mlp_neurons") or not chips.has("mlp.router_logits"):
        yield _called(chips, "mlp", "down_proj", "router", "experts", "shared_experts")
    yield _values(chips, "mlp", mlp_activation="activation", mlp_neurons="neurons")
    yield _modules(chips, "down_proj")


def _mixture_rows(chips: Chips) -> Iterator[Row]:
    """A mixture: the router's choice, the experts' neurons, and what routed and shared experts give side by side."""
    yield (*_modules(chips, "router"), *_values(chips, "mlp", router_logits="router logits"))
    yield _values(chips, "mlp", expert_indices="expert indices", expert_weights="expert weights")
    yield (*_modules(chips, "experts"), *_values(chips, "mlp", expert_neurons="expert neurons"))
    shared = _values(chips, "mlp", shared_expert_output="shared output")
    yield _modules(chips, "shared_experts")
    yield (*_values(chips, "mlp", routed_output="routed output"), *shared)


def _mlp_aside(variant: Variant) -> str:
    """How wide an MLP is, or how many experts there are and how many see a token."""
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
