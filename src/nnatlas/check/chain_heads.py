"""Chain, from the heads to the stream: gate or none, the output projection, the heads' parts, post-norm and factors.

The output projection is called by itself on what the row calls the premix: equal outputs prove which axis is the heads'.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnatlas.check.at import At
from nnatlas.check.findings import Finding
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial


@law("chain")
def the_projection_takes_the_heads_side_by_side(trial: Trial) -> Iterator[Finding]:
    """The premix is the heads' outputs where nothing gates them, and the output projection's own output comes from it.

    The second part proves the order of heads and dimensions: a premix split the wrong way round projects to something else.
    """
    for at in _attentions(trial):
        premix, written = at("attention_premix"), at.output_of("o_proj")
        if premix is None:
            continue
        if at("attention_gate") is None:
            yield from at.equation("attention_premix", "attention_head_outputs", at("attention_head_outputs"))
        if written is not None:
            projected = at.through("o_proj", premix.flatten(-2))
            yield from at.equation("attention_premix", "what o_proj's output was computed from", projected, written)


@law("chain")
def head_contributions_sum_to_what_is_projected(trial: Trial) -> Iterator[Finding]:
    """Each head through its slice of the projection: the sum over heads is the output less the bias, before any norm."""
    for at in _attentions(trial):
        parts, written = at("attention_head_contributions"), at.output_of("o_proj")
        if parts is not None and written is not None:
            bias = getattr(at.module("o_proj"), "bias", None)
            rest = at.scaled("attention_output", written if bias is None else written - bias.detach())
            words = "their sum is o_proj's output less its bias"
            yield from at.equation("attention_head_contributions", words, rest, parts.sum(2))


@law("chain")
def the_attention_adds_what_it_projected(trial: Trial) -> Iterator[Finding]:
    """What reaches the stream is the projection's output, through the post-norm and the factors that the row states."""
    for at in _attentions(trial):
        written, words = at.output_of("o_proj"), "o_proj's output"
        if at.has("attention_post_norm"):
            written, words = at.through("attention_post_norm", written), "attention_post_norm(o_proj's output)"
        name = "self_attn.attention_output"
        yield from at.equation(name, words, at.scaled(name, written))


def _attentions(trial: Trial) -> Iterator[At]:
    """The chosen blocks that have an attention."""
    yield from (At(trial, block) for block in trial.blocks if "self_attn" in block.parts)
