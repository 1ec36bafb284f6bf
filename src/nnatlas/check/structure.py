"""What a built model is made of, measured: kinds of block, sizes, roles, and what its forward does with them.

A check says whether values are what their names say; this says what the model does with them, so that traits such as
"no rotary" or "parallel block" are read off a run and never typed by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from nnatlas.bind.tree import Host
from nnatlas.check.findings import apart
from nnatlas.check.snapshot import Reading
from nnatlas.check.trial import LENGTH, Trial
from nnatlas.model import StandardizedTransformer
from nnatlas.places import Absent

CLOSE: Final = 1e-4
"""Relative difference below which two tensors count as the same."""
SOME_ID: Final = 100


def structure(model: StandardizedTransformer) -> dict[str, Any]:
    """What a model is made of, as plain data; `facts` are the names in FACTS that hold somewhere in it.

    Its attention should be the step-by-step one where it has that: masks and sinks show in the probabilities.
    """
    trial, alike = Trial(model), _alike(model)
    roles = {name for host in _all_hosts(trial) for name, at in host.roles.items() if isinstance(at, tuple)}
    return {
        "kinds": dict(Counter(" + ".join(block.kinds) or "plain" for block in trial.owner.blocks)),
        "sizes": dict(sorted(trial.owner.root.sizes.items())),
        "roles": sorted(roles),
        "facts": [name for name, measure in FACTS.items() if _holds(measure, trial, alike)],
    }


def _alike(model: StandardizedTransformer) -> Any:
    """The same model on a prompt of one token over and over; None where it cannot run on that."""
    try:
        return Trial(model, torch.full((1, LENGTH), SOME_ID))
    except Exception:  # noqa: BLE001  what needs this trial is then not seen
        return None


def _holds(measure: Callable[[Trial, Trial], bool], trial: Trial, alike: Trial) -> bool:
    """Whether a fact was seen; what cannot be looked at was not."""
    try:
        return bool(measure(trial, alike))
    except Exception:  # noqa: BLE001  a measurement that a model gives no ground for says nothing of it
        return False


def _all_hosts(trial: Trial) -> list[Host]:
    parts = [part for block in trial.owner.blocks for part in (block, *block.parts.values())]
    return [trial.owner.root, *parts]


def _read(trial: Trial, name: str) -> list[tuple[Host, Tensor]]:
    """Each host at which a value was read, with the value."""
    found = ((one.host, trial.snapshot.copy(one.point)) for one in trial.readings if one.value.key == name)
    return [(host, value) for host, value in found if isinstance(value, Tensor)]


def _pairs(trial: Trial, one: str, other: str) -> list[tuple[Tensor, Tensor]]:
    """Two values of the same host, wherever both were read and have one shape."""
    others = {host.name: value for host, value in _read(trial, other)}
    both = [(value, others[host.name]) for host, value in _read(trial, one) if host.name in others]
    return [(left, right) for left, right in both if left.shape == right.shape]


# -- positions ---------------------------------------------------------------------------------------------------------


def _rotations(trial: Trial) -> list[Tensor]:
    """For every attention read, which dimensions of its queries the rotary changes."""
    found = _pairs(trial, "self_attn.unrotated_queries", "self_attn.attention_queries")
    found = found or _pairs(trial, "self_attn.unrotated_keys", "self_attn.attention_keys")
    return [(before != after).any(0).any(0).any(0) for before, after in found]  # slow dimensions turn by very little


def _rotates(trial: Trial, _: Trial) -> bool:
    seen = _rotations(trial)
    named = any("rotary" in type(module).__name__.lower() for module in trial.owner.blocks[0].owner.module.modules())
    return any(bool(one.any()) for one in seen) if seen else named and bool(_read(trial, "self_attn.attention_queries"))


def _rotates_some_blocks(trial: Trial, _: Trial) -> bool:
    return len({bool(one.any()) for one in _rotations(trial)}) == 2


def _rotates_some_dimensions(trial: Trial, _: Trial) -> bool:
    return any(bool(one.any()) and not bool(one.all()) for one in _rotations(trial))


def _first_stream(trial: Trial) -> Tensor:
    return next(value for host, value in _read(trial, "block.layer_input") if host.index == 0)


def _adds_positions(_: Trial, alike: Trial) -> bool:
    """The same token enters the first block differently at two positions."""
    stream = _first_stream(alike)
    return apart(stream[:1, -2], stream[:1, -1]) > CLOSE


def _biases_scores(trial: Trial, alike: Trial) -> bool:
    """In the first block, tokens that are all alike, unrotated and without positions, are not attended to alike."""
    if _rotates(trial, alike) or _adds_positions(trial, alike):
        return False
    first = [one for host, one in _read(alike, "self_attn.attention_scores") if host.index == 0]
    return any(apart(one[:1, :, -1, -2], one[:1, :, -1, -1]) > CLOSE for one in first)


# -- what attention sees -----------------------------------------------------------------------------------------------


def _seen(trial: Trial) -> list[Tensor]:
    """How many keys each query attends to, by attention, `[seq]`; none where an indexer picks the keys."""
    if _read(trial, "self_attn.indexer_choice"):
        return []
    read = [value for _, value in _read(trial, "self_attn.attention_probabilities")]
    return [(one[0] > 0).any(0).sum(-1) for one in read if one.ndim == 4 and one.shape[-1] >= one.shape[-2] > 1]


def _slides(trial: Trial, _: Trial) -> bool:
    return any(
        bool((one.diff() >= 0).all()) and int(one[-1]) < len(one) and int(one[0]) < int(one[-1]) for one in _seen(trial)
    )


def _chunks(trial: Trial, _: Trial) -> bool:
    return any(bool((one.diff() < 0).any()) for one in _seen(trial))


def _sinks(trial: Trial, _: Trial) -> bool:
    """A learned parameter beside the keys, or probabilities that leave something over."""
    hosts = [part for block in trial.owner.blocks for kind, part in block.parts.items() if kind == "self_attn"]
    return any("sink" in name for host in hosts for name, _ in host.module.named_parameters())


# -- the block ---------------------------------------------------------------------------------------------------------


def _parallel(trial: Trial, _: Trial) -> bool:
    """Moving what the attention adds does not move what the MLP of the same block reads."""
    by_label = {one.label: one for one in trial.readings}
    for block in trial.blocks:
        wrote, reads = (by_label.get(f"{block.name}.{name}") for name in ("self_attn.attention_output", "mlp_input"))
        if wrote is not None and reads is not None:
            return _unmoved(trial, wrote, reads)
    return False


def _unmoved(trial: Trial, moved: Reading, seen: Reading) -> bool:
    """Whether a value is the same whatever another one is: because it comes before it, or because noise there does not reach it."""
    if trial.snapshot.place(seen) < trial.snapshot.place(moved):
        return True
    with torch.no_grad(), trial.model.trace(trial.pair) as traced:
        value = traced._run.read(moved.point)
        traced._run.write(moved.point, value + torch.randn_like(value))  # a constant would be lost in a layer norm
        found = traced._run.read(seen.point).clone()
    return apart(found, trial.snapshot.copy(seen.point)) <= CLOSE


def _side_by_side(trial: Trial, _: Trial) -> bool:
    return any({"self_attn", "linear_attn"} <= block.parts.keys() for block in trial.owner.blocks)


def _gated_mlp(trial: Trial, _: Trial) -> bool:
    """The activation is not yet what the down projection receives, and the MLP has a third matrix of that size."""
    neurons = {host.name: value for host, value in _read(trial, "mlp.mlp_neurons")}
    read = [(host, one) for host, one in _read(trial, "mlp.mlp_activation") if host.name in neurons]
    return any(apart(one, neurons[host.name]) > CLOSE and _matrices(host) > 2.5 for host, one in read)


def _matrices(host: Host) -> float:
    """How many matrices of the down projection's size an MLP is made of."""
    role = host.roles["down_proj"]
    weight = getattr(role[0], "weight", None) if isinstance(role, tuple) else None
    whole = sum(one.numel() for one in host.module.parameters() if one.ndim == 2)
    return whole / weight.numel() if isinstance(weight, Tensor) else 0.0


def _borrowed_keys(trial: Trial, _: Trial) -> bool:
    """Some attentions have no key projection of their own where others have."""
    parts = [part for block in trial.owner.blocks if (part := block.parts.get("self_attn"))]
    projecting = [part for part in parts if part.absence("attention_latent") is not None]  # the others expand a latent
    return len({isinstance(part.roles["k_proj"], tuple) for part in projecting}) == 2


def _norm(trial: Trial) -> Any:
    """The model's final norm, or the first that a block has."""
    hosts = (trial.owner.root, *trial.owner.blocks)
    names = ("norm", "attention_norm", "mlp_norm", "attention_post_norm", "mlp_post_norm")
    return next(at[0] for host in hosts for name in names if isinstance(at := host.roles.get(name, Absent("")), tuple))


def _centres(trial: Trial, _: Trial) -> bool:
    """A layer norm subtracts the mean: it gives the same for a vector and for that vector plus a constant."""
    norm = _norm(trial)
    drawn = torch.randn(1, 1, norm.weight.shape[-1])
    with torch.no_grad():
        return apart(norm(drawn + 1), norm(drawn)) <= CLOSE


def _keeps_mean(trial: Trial, alike: Trial) -> bool:
    """An RMS norm does not subtract the mean; running it is part of the proof."""
    norm = _norm(trial)
    with torch.no_grad():
        norm(torch.randn(1, 1, norm.weight.shape[-1]))
    return not _centres(trial, alike)


# -- the ends ----------------------------------------------------------------------------------------------------------


def _scales_embeddings(trial: Trial, _: Trial) -> bool:
    """What enters the first block is the embedding's weight at each token times one number other than 1."""
    last = slice(-LENGTH // 2, None)  # clear of ids that stand for an image
    stream = _first_stream(trial)[:, last]
    embedded = trial.module.get_input_embeddings().weight.detach()[trial.pair[:, last]]
    factor = (stream * embedded).sum() / embedded.square().sum()
    return abs(float(factor) - 1) > CLOSE and apart(stream, factor * embedded) <= CLOSE


def _ties(trial: Trial, _: Trial) -> bool:
    head, embedding = trial.module.get_output_embeddings(), trial.module.get_input_embeddings()
    return head is not None and head.weight is embedding.weight


def _caps_scores(trial: Trial, _: Trial) -> bool:
    fields = vars(trial.owner.config)
    return any(fields[name] and "cap" in name and ("attn" in name or "attention" in name) for name in fields)


def _reads_images(trial: Trial, _: Trial) -> bool:
    config = trial.module.config
    return (
        getattr(config, "vision_config", None) is not None
        or config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    )


def _reads_audio(trial: Trial, _: Trial) -> bool:
    return getattr(trial.module.config, "audio_config", None) is not None


FACTS: Final[dict[str, Callable[[Trial, Trial], bool]]] = {
    "rotates": _rotates,
    "rotates some blocks": _rotates_some_blocks,
    "rotates some dimensions": _rotates_some_dimensions,
    "adds positions": _adds_positions,
    "biases scores by position": _biases_scores,
    "slides": _slides,
    "chunks": _chunks,
    "sinks": _sinks,
    "parallel": _parallel,
    "attention beside mixer": _side_by_side,
    "gates the MLP": _gated_mlp,
    "borrows keys": _borrowed_keys,
    "norms centre": _centres,
    "norms keep the mean": _keeps_mean,
    "scales embeddings": _scales_embeddings,
    "ties embeddings": _ties,
    "caps scores": _caps_scores,
    "reads images": _reads_images,
    "reads audio": _reads_audio,
}
"""What is measured of every type, by the words in which it is kept."""
