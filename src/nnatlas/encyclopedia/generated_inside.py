"""Notes on what happens inside blocks: the block itself, contributions, queries and keys, positions, heads, experts, mixers.

Each function makes one chapter out of `Facts` and says of every sentence how it is known: `by_row` (the row states it), `built`
(the shape that is shown has it) or `measured` (a run showed it).  A sentence that only some blocks bear out says which,

    Nothing rotates in every 4th block from 3: there the mask alone orders the tokens.

and a chapter that has nothing to say yields nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nnatlas.encyclopedia.anatomy import caption
from nnatlas.encyclopedia.formulas import equations
from nnatlas.encyclopedia.generated_facts import Facts, capital, coded, link, listed
from nnatlas.encyclopedia.notes import Equations, Items, Mark, Part, Text
from nnatlas.encyclopedia.outline import CHUNK, HALVES, PAIRS, WINDOW, Bound, Variant
from nnatlas.encyclopedia.words import place_words
from nnatlas.traits import Measurement

# -- the block -----------------------------------------------------------------------------------------------------------


def block(facts: Facts) -> Iterator[Part]:
    """What is unusual, the sorts of block, their equations and norms."""
    yield facts.by_row(_headline(facts))
    yield from _sorts(facts)
    yield from _equations(facts)
    if facts.has("pre-norms", "post-norms", "sandwich-norms", "normed-sums"):
        yield facts.measured(_norms(facts))
    if facts.has("looped"):
        yield facts.by_row("The stack runs more than once in a forward; values are those of the first pass.")


def _headline(facts: Facts) -> str:
    """The row's first sentence."""
    first = facts.own.summary.split("\n")[0]
    said = capital(first.partition(": ")[2] or first).rstrip(".")
    text = facts.row.covers[0]
    inner = f" Its blocks are bound by the row of its text model, [{text}](family:{text})."
    return f"{said}.{inner if facts.row.name != facts.own.name else ''}"


def _sorts(facts: Facts) -> Iterator[Part]:
    """The sorts of block, where there are several."""
    sorts = facts.of_variants(lambda variant: _sort(variant) or "the others")
    if len(sorts) < 2:
        yield facts.built(f"{facts.shape} the stack has {facts.outline.blocks} blocks, all of one sort.")
        return
    yield Text(f"{facts.shape} the stack has {facts.outline.blocks} blocks of {len(sorts)} sorts:")
    yield Items(tuple(facts.built(f"{capital(said)}: {facts.where(blocks)}.") for said, blocks in sorts.items()))


def _sort(variant: Variant) -> str:
    """What tells a sort of block from the others; a number with the name of the field that it is an entry of."""
    fields = {said: f"{name.replace('_', ' ')} {said}" for name, said in variant.says.items() if said[:1].isdigit()}
    return ", ".join(fields.get(word, word) for word in caption(variant).split(", "))


def _equations(facts: Facts) -> Iterator[Part]:
    """The equations of each sort of block, those of one kind once; and why there is no sum where there is none."""
    excepted = {said.split(": ")[1] for said in facts.found.exceptions if said.startswith("chain: ")}
    made: dict[tuple[str, ...], list[int]] = {}
    for variant in facts.outline.variants:
        made.setdefault(equations(variant, excepted), []).extend(variant.blocks)
    for lines, blocks in made.items():
        if len(made) > 1:
            yield Text(f"{capital(facts.where(tuple(sorted(blocks))))}:")
        if lines:
            yield Equations(lines, Mark("measured", "the laws chain and residual of nnatlas check"))
    for reason, where in facts.of_variants(lambda variant: variant.no_identity).items():
        yield facts.by_row(f"What a block returns is no plain sum in {facts.where(where)}: {reason}.")


_NORMS: Final = {
    "pre-norms": "Norms stand in front of the sublayers and not behind them",
    "post-norms": "Norms stand behind the sublayers and not in front: attention and MLP read the stream as it is",
    "sandwich-norms": "Norms stand in front of the sublayers and behind them: what is added has passed a norm",
    "normed-sums": "Every sum of the stream and a sublayer is normed, and that is the stream",
}


def _norms(facts: Facts) -> str:
    """Where the norms stand, and whether they keep the mean."""
    placed = next(said for key, said in _NORMS.items() if facts.has(key))
    kinds = {"rmsnorm": "they keep the mean, as RMS norms do", "layernorm": "they subtract the mean"}
    return "; ".join((placed, *(said for key, said in kinds.items() if facts.has(key)))) + "."


# -- contributions -------------------------------------------------------------------------------------------------------


def contributions(facts: Facts) -> Iterator[Part]:
    """Where what each part adds is read, and what the parts sum to."""
    for key in ("self_attn.attention_output", "linear_attn.attention_output", "mlp.mlp_output"):
        yield from _places(facts, key)
    sums = any(variant.identity for variant in facts.outline.variants)
    if sums and facts.found.laws.get("residual") == "holds":
        yield facts.measured(
            "Input and contributions sum to the output as the equations say: the law `residual` holds."
        )
    if facts.has("scaled-branches"):
        yield facts.measured("What a sublayer adds is multiplied by a number on the way; the contribution is past it.")
    if facts.has("parallel"):
        yield facts.measured("The MLP does not read what the attention of its own block wrote.")


def _places(facts: Facts, key: str) -> Iterator[Part]:
    """Where a value is read, once for each place that it is read at."""
    root = facts.outline.root

    def words(variant: Variant) -> str:
        cell = variant.bound.cells.get(key, "")
        return place_words(cell, variant.bound, root) if cell else ""

    places = facts.of_variants(words)
    for said, blocks in places.items():
        yield facts.by_row(f"{link(key)} is {coded(said)}{facts.within(blocks) if len(places) > 1 else ''}.")


# -- queries, positions, heads -----------------------------------------------------------------------------------------------


def queries(facts: Facts) -> Iterator[Part]:
    """Norms on queries and keys, and which values stand before and after the rotary."""
    for said, blocks in facts.of_variants(lambda variant: _normed(variant.bound)).items():
        yield facts.by_row(f"{said}{facts.within(blocks)}.")
    if facts.found.serves("self_attn.unrotated_queries") and facts.has("rotary"):
        before, after = map(link, ("self_attn.unrotated_queries", "self_attn.attention_queries"))
        yield facts.by_row(f"{before} stand before the rotary, {after} after it.")


def _normed(bound: Bound) -> str:
    """How queries and keys are normed, read off the place of the queries before the rotary."""
    names = [f"`{bound.roles[role]}`" for role in ("q_norm", "k_norm") if role in bound.roles]
    cell = bound.cells.get("self_attn.unrotated_queries", "")
    if not names or not cell.startswith("q_norm"):
        return ""
    how = "all heads at once" if "(num_heads" in cell else "every head by itself"
    return f"Queries and keys are normed before the rotary, {how}, by {listed(names)}"


_TURNS: Final = {PAIRS: "neighbouring dimensions with each other", HALVES: "the first half of a head with the second"}
_SEES: Final = {WINDOW: "the last {} positions, the token's own included", CHUNK: "a chunk of {} positions"}


def positions(facts: Facts) -> Iterator[Part]:
    """How the order of tokens comes in, and how far back a token sees."""
    yield from _turning(facts)
    for said, blocks in facts.of_variants(_seen).items():
        where = facts.where(blocks)
        one = len(blocks) == 1 or where.startswith("every")
        yield facts.measured(f"{capital(where)} {'sees' if one else 'see'} only {said}.")
    for trait, said in _ORDER.items():
        if facts.has(trait):
            yield facts.measured(said)


_ORDER: Final = {
    "positions": "Position vectors are added to the token embeddings before the first block.",
    "score-bias": "The scores carry a bias by distance.",
    "attention-free": "There is no attention: order is in the recurrence.",
}


def _turning(facts: Facts) -> Iterator[Part]:
    """What the rotary turns, and where."""
    if facts.has("no-rotary"):
        yield facts.measured("Nothing rotates queries and keys.")
    part = ", and only some of a head's dimensions" if facts.has("partial-rotary") else ""
    turns = facts.of_variants(lambda variant: _TURNS.get(variant.facts.get("turns", ""), ""))
    for said, blocks in turns.items():
        yield facts.measured(f"The rotary turns {said}{part}{facts.within(blocks)}.")
    if facts.has("rotary") and not turns:
        yield facts.measured(f"Queries and keys are rotated by their position{part}.")
    still = facts.of_variants(lambda variant: "still" if variant.facts.get("rotates") is False else "")
    if facts.has("rotary") and still:
        yield facts.measured(
            f"Nothing rotates in {facts.where(still['still'])}: there the mask alone orders the tokens."
        )


def _seen(variant: Variant) -> str:
    """What of the tokens before a sort of block sees, where that is not all of them."""
    sees = variant.facts.get("sees", "")
    size = variant.facts.get(sees) or variant.facts.get("window") or ""
    return " ".join(_SEES[sees].format(size).split()) if sees in _SEES else ""


def heads(facts: Facts) -> Iterator[Part]:
    """How many there are, what they share, and what stands beside them."""
    sizes = facts.outline.root.sizes
    count, shared = sizes.get("num_heads"), sizes.get("num_kv_heads")
    if count and shared and facts.has("mha", "gqa", "mqa"):
        yield facts.built(
            f"{facts.shape} there are {count} query heads over {shared} key/value heads, {_width(sizes)} wide."
        )
        yield facts.built(_reach(count, shared))
    for trait, said in _HEADS.items():
        if facts.has(trait):
            yield facts.measured(said)
    if facts.found.serves("self_attn.attention_scores", "self_attn.attention_probabilities"):
        yield facts.measured(_loads(facts.found))


_HEADS: Final = {
    "latent": f"Keys and values are expanded from {link('self_attn.attention_latent')}: an edit to it reaches all heads.",
    "fused": "Queries, keys and values have no projection module each.",
    "gated-heads": f"A gate, {link('self_attn.attention_gate')}, stands between the heads and the output projection.",
    "sinks": "A learned sink takes a share of every head's attention.",
    "capped-scores": "Scores pass a soft cap.",
}


def _width(sizes: Mapping[str, int]) -> str:
    """Of a head, and of its values where those are of another."""
    queries, values = sizes.get("qk_head_dim"), sizes.get("head_dim")
    return f"{queries}" if queries == values else f"{queries} (values {values})"


def _reach(heads: int, shared: int) -> str:
    """Which query heads an edit to a key/value head reaches; they stand next to one another."""
    if heads == shared:
        return "Every head has keys and values of its own: an edit to one reaches one."
    if shared == 1:
        return "All heads share one set of keys and values: an edit to it reaches all of them."
    return f"An edit to a key/value head reaches the {heads // shared} query heads of its group."


def _loads(found: Measurement) -> str:
    """Under which attention implementations the interior was measured."""
    if len(found.attention) > 1:
        return "Queries, scores and pattern are served under sdpa and eager alike."
    return f"The type runs with {found.attention[0]} attention only, and its interior was measured there."


# -- mixtures and recurrences ----------------------------------------------------------------------------------------------


def experts(facts: Facts) -> Iterator[Part]:
    """The mixture: how many are chosen, how to force the choice, and where its parts are."""
    if not facts.has("moe"):
        return
    sizes = {name: size for variant in facts.outline.variants for name, size in variant.bound.sizes.items()}
    count, chosen = sizes.get("num_experts"), sizes.get("top_k")
    if count and chosen:
        yield facts.built(f"{facts.shape} a router sends each token to {chosen} of {count} experts.")
    if facts.found.serves("mlp.router_logits", "mlp.expert_indices"):
        yield facts.measured(f"An edit to {link('mlp.router_logits')} reaches the routing.")
    if facts.found.serves("mlp.expert_neurons"):
        yield facts.measured("Each expert's neurons, for the tokens that it got, are `expert_neurons(e)`.")
    if facts.has("shared-experts"):
        yield facts.measured(f"Shared experts see every token; {link('mlp.shared_expert_output')} is what they add.")
    if facts.has("some-dense"):
        yield facts.measured("Some blocks have a dense MLP instead.")


def mixer(facts: Facts) -> Iterator[Part]:
    """Where the recurrent mixer is, and what it serves."""
    served = [key for key in facts.found.served if key.startswith("linear_attn.")]
    if not served:
        return
    blocks = facts.of_variants(lambda variant: "mixing" if variant.bound.has("linear_attn") else "").get("mixing")
    where = f"in {facts.where(blocks)}" if blocks else "where a block has it"
    yield facts.by_row(f"The recurrent mixer is `linear_attn`, {where}.")
    yield facts.measured(f"It serves {listed(map(link, served))}.")
