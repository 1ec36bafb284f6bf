"""Chain, the stream: from block to block, between attention and MLP, and through the norms."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from torch import Tensor

from nnatlas import places
from nnatlas.check.at import At
from nnatlas.check.findings import Finding
from nnatlas.check.registry import law
from nnatlas.check.residual import identity_of
from nnatlas.check.trial import Trial
from nnatlas.places import Absent


@law("chain")
def each_block_enters_with_what_the_last_one_left(trial: Trial) -> Iterator[Finding]:
    """Between two blocks nothing happens to the stream; a family that adds something there declares it."""
    blocks = trial.owner.blocks
    for earlier, later in pairwise(blocks):
        words = f"layers[{earlier.index}].layer_output"
        yield from At(trial, later).equation("layer_input", words, At(trial, earlier)("layer_output"))


@law("chain")
def the_middle_is_the_input_and_the_attention(trial: Trial) -> Iterator[Finding]:
    """`layer_mid = layer_input + attention_output`, whatever mixer stands for the attention.

    Where the identity weighs its summands, what weighs the attention there is taken off: it comes after the middle.
    """
    for block in trial.owner.blocks:
        at, identity = At(trial, block), identity_of(block)
        if isinstance(identity, Absent):
            continue
        terms = [term for term in places.identity(identity)[:-1] if term.value in _BEFORE_MLP]
        mixed = [term for term in terms if term.value != "layer_input" and at.term(term) is not None]
        parts = [
            part
            for term in terms
            if term in mixed or term.value == "layer_input"
            if (part := at.term(term)) is not None
        ]
        if mixed and parts:
            middle = at.without(mixed[0].factors, sum(parts[1:], parts[0]))
            yield from at.equation("layer_mid", "layer_input + attention_output", middle)


_BEFORE_MLP = ("layer_input", "attention_output", "self_attn.attention_output", "linear_attn.attention_output")


@law("chain")
def norms_norm_the_stream(trial: Trial) -> Iterator[Finding]:
    """The bound norm modules, called by themselves, give the normed streams: no formula is assumed.

    The MLP's norm reads `layer_mid`, or `layer_input` on a parallel block, which has no middle.
    """
    for block in trial.blocks:
        at = At(trial, block)
        entering, middle = at("layer_input"), at("layer_mid")
        if at.has("attention_norm"):
            normed = at.through("attention_norm", entering)
            yield from at.equation("attention_norm_output", "attention_norm(layer_input)", normed)
        if at.has("mlp_norm"):
            read, words = (entering, "layer_input") if middle is None else (middle, "layer_mid")
            yield from at.equation("mlp_norm_output", f"mlp_norm({words})", at.through("mlp_norm", read))


@law("chain")
def the_mlp_reads_what_was_normed(trial: Trial) -> Iterator[Finding]:
    """The MLP is called with its norm's output, or with the bare stream on a post-norm block."""
    for block in trial.blocks:
        at = At(trial, block)
        name = next((name for name in ("mlp_norm_output", "layer_mid", "layer_input") if at(name) is not None), None)
        if name is not None:
            yield from at.equation("mlp_input", name, _like(at(name), at("mlp_input")))


def _like(tensor: Tensor, other: Tensor | None) -> Tensor:
    """The tensor in the other's shape, where only its token axes were flattened."""
    return tensor.reshape(other.shape) if other is not None and other.numel() == tensor.numel() else tensor
