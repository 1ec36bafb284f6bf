"""The traits by which families are told apart and searched, each with what shows it: the row, or the kept measurement.

None is typed by hand for a family: a trait is a question that row and measurement answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nnatlas.families._row import Family
from nnatlas.places import Absent
from nnatlas.traits.measured import SOME, Measurement

Shows = Callable[[Family, Measurement], bool]


@dataclass(frozen=True, slots=True)
class Trait:
    """One trait: `key` is what one types, `name` what the field calls it, `meaning` what it says here."""

    key: str
    name: str
    meaning: str
    shown: Shows


def _fact(*names: str) -> Shows:
    """Measured on the running tiny model."""
    return lambda _, found: any(name in found.facts for name in names)


def _role(*names: str) -> Shows:
    """Some block has a module that plays one of these roles."""
    return lambda _, found: any(name in found.roles for name in names)


def _serves(key: str) -> Shows:
    return lambda _, found: found.serves(key)


def _all(*parts: Shows) -> Shows:
    return lambda family, found: all(part(family, found) for part in parts)


def _not(part: Shows) -> Shows:
    return lambda family, found: not part(family, found)


def _groups(said: Callable[[int, int], bool]) -> Shows:
    """A statement about the numbers of query and key/value heads; attention over a latent has no such groups."""

    def shown(_: Family, found: Measurement) -> bool:
        heads, shared = found.sizes.get("num_heads"), found.sizes.get("num_kv_heads")
        expanded = found.serves("self_attn.attention_latent") or "self_attn" not in found.roles
        return heads is not None and shared is not None and not expanded and said(heads, shared)

    return shown


def _readout(*words: str) -> Shows:
    """A step of the row's way from the stream to the logits."""
    return lambda family, _: isinstance(family.readout, str) and bool(set(words) & set(family.readout.split()))


def _no_plain_sum(family: Family, _: Measurement) -> bool:
    return isinstance(family.identity, Absent)


def _scaled_branches(family: Family, found: Measurement) -> bool:
    """A factor in the cell of what a sublayer adds, in the row or in a kind of block that the model has."""
    names = {name for kinds in found.kinds for name in kinds.split(" + ")}
    cells = [family.cells, *(kind.cells for kind in family.kinds if kind.name in names)]
    added = [str(one.get(key, "")) for one in cells for key in ("self_attn.attention_output", "mlp.mlp_output")]
    return any(f" {sign} " in cell for cell in added for sign in "*/")


def _further_branches(family: Family, _: Measurement) -> bool:
    return isinstance(family.identity, str) and family.identity.partition(" = ")[0].count(" + ") > 2


def _streams(_: Family, found: Measurement) -> bool:
    return "streams" in found.sizes


_ATTENTION, _MIXER, _EXPERTS = _role("self_attn"), _role("linear_attn"), _role("experts", "router")
_BEFORE, _AFTER = _role("attention_norm", "mlp_norm"), _role("attention_post_norm", "mlp_post_norm")

_TABLE: Final = (
    # how tokens are mixed
    ("mha", "multi-head attention", "every head has keys and values of its own", _groups(lambda heads, kv: kv == heads)),
    ("gqa", "grouped-query attention", "groups of heads can share keys and values", _groups(lambda heads, kv: 1 < kv < heads)),
    ("mqa", "multi-query attention", "all heads share one set of keys and values", _groups(lambda heads, kv: kv == 1 < heads)),
    ("latent", "latent attention", "keys and values are expanded from a compressed vector", _serves("self_attn.attention_latent")),
    ("fused", "joint projections", "no projection module each for queries, keys and values: most often one makes all three",
     _all(_ATTENTION, _not(_role("q_proj", "k_proj", "v_proj")), _not(_serves("self_attn.attention_latent")))),
    ("borrowed-keys", "shared keys across blocks", "some blocks take the keys and values of an earlier one", _fact("borrows keys")),
    ("qk-norm", "query/key norms", "queries or keys are normed", _role("q_norm", "k_norm")),
    ("gated-heads", "gated heads", "a gate stands between heads and output projection", _serves("self_attn.attention_gate")),
    ("sinks", "attention sinks", "a learned sink takes a share of every head's attention", _fact("sinks")),
    ("capped-scores", "capped scores", "attention scores go through a soft cap", _fact("caps scores")),
    ("sliding", "sliding window", "some blocks see only the last few keys", _fact("slides")),
    ("chunked", "chunked attention", "some blocks see only the keys of a query's own chunk", _fact("chunks")),
    ("indexer", "sparse indexer", "an indexer picks the keys that a query may attend to", _serves("self_attn.indexer_choice")),
    ("recurrent", "recurrent mixer", "some blocks mix tokens by a recurrence or convolution instead", _MIXER),
    ("hybrid", "hybrid", "attention in some places, a recurrent mixer in others", _all(_ATTENTION, _MIXER)),
    ("attention-free", "attention-free", "no block has attention", _all(_MIXER, _not(_ATTENTION))),
    ("side-by-side", "attention beside a mixer", "both mix tokens within one block", _fact("attention beside mixer")),
    ("short-conv", "short convolution", "a convolution over a few tokens stands in the mixer", _serves("linear_attn.conv_output")),
    # positions
    ("rotary", "rotary", "queries and keys are rotated by their position", _fact("rotates")),
    ("no-rotary", "no rotary", "there is attention, and nothing rotates", _all(_ATTENTION, _not(_fact("rotates")))),
    ("partial-rotary", "partial rotary", "only some dimensions are rotated", _fact("rotates some dimensions")),
    ("nope-blocks", "blocks without rotary", "some attention blocks rotate, others do not", _fact("rotates some blocks")),
    ("positions", "added positions", "position vectors are added to the token embeddings",
     _all(_fact("adds positions"), _not(_fact("rotates")))),
    ("score-bias", "position bias on scores", "scores carry a bias by distance, as in ALiBi", _fact("biases scores by position")),
    # norms and the stream
    ("pre-norms", "pre-norms", "norms stand before the sublayers only", _all(_BEFORE, _not(_AFTER))),
    ("post-norms", "post-norms", "norms stand on what the sublayers write only", _all(_AFTER, _not(_BEFORE))),
    ("sandwich-norms", "sandwich norms", "norms stand before and after the sublayers", _all(_BEFORE, _AFTER)),
    ("normed-sums", "norms on the stream", "every sum of the stream is normed, as in the first transformers",
     _all(_no_plain_sum, _not(_BEFORE), _not(_AFTER), _not(_streams))),
    ("no-plain-sum", "stream that is no plain sum", "a block's output is not its input plus what its parts add", _no_plain_sum),
    ("rmsnorm", "RMS norms", "norms keep the mean", _fact("norms keep the mean")),
    ("layernorm", "layer norms", "norms subtract the mean", _fact("norms centre")),
    ("parallel", "parallel block", "the MLP does not read what the attention of its block wrote", _fact("parallel")),
    ("scaled-branches", "scaled branches", "what a sublayer adds is multiplied by a number", _scaled_branches),
    ("branches", "further branches", "more than one attention and one MLP add to the stream", _further_branches),
    ("streams", "parallel residual streams", "the residual stream has several copies side by side",
     _streams),
    ("looped", "looped", "the stack runs more than once in a forward", lambda family, _: family.looped),
    ("mixed-blocks", "mixed blocks", "blocks are of more than one kind", lambda _, found: len(found.kinds) > 1),
    # MLP
    ("moe", "mixture of experts", "a router sends each token to a few experts", _EXPERTS),
    ("shared-experts", "shared experts", "beside the routed experts some see every token", _serves("mlp.shared_expert_output")),
    ("some-dense", "dense and sparse blocks", "a mixture in some blocks, a dense MLP in others",
     lambda _, found: found.served.get("mlp.expert_indices") == SOME and "mlp.mlp_neurons" in found.served),
    ("gated-mlp", "gated MLP", "the activation is multiplied by a second projection", _fact("gates the MLP")),
    # the ends
    ("scaled-embeddings", "scaled embeddings", "token embeddings are multiplied by a number", _fact("scales embeddings")),
    ("scaled-logits", "scaled logits", "the logits are multiplied by a number", _readout("*", "/")),
    ("capped-logits", "capped logits", "the logits can go through a soft cap", _readout("cap")),
    ("tied", "tied embeddings", "by default the head's weight is the embedding's", _fact("ties embeddings")),
    ("images", "reads images", "the type's wrapper also takes images", _fact("reads images")),
    ("audio", "reads audio", "the type's wrapper also takes sound", _fact("reads audio")),
)  # fmt: skip

TRAITS: Final = {key: Trait(key, name, meaning, shown) for key, name, meaning, shown in _TABLE}
"""Every trait by its key, in the order in which a forward meets them."""
