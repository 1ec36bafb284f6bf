"""Chain, the two ends of the model: ids to embeddings, and the last stream through norm and head to probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import torch
from torch import Tensor

from nnatlas.check.findings import Finding
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial
from nnatlas.model.readout import through
from nnatlas.places import Absent


@law("chain")
def embeddings_norm_and_head_follow_each_other(trial: Trial) -> Iterator[Finding]:
    """Ids through the embedding; the last stream through norm, head, scales and caps; the softmax of the last position."""
    found = {name: _copy(trial, name) for name in trial.owner.root.values}
    last = trial.owner.blocks[-1]
    stream = trial.snapshot.copy(last.point("layer_output")) if last.absence("layer_output") is None else None
    logits = found["logits"]
    expected = {
        "token_embeddings": ("embed_tokens(input_ids)", _through(trial, "embed_tokens", found["input_ids"])),
        "final_norm_output": ("norm(layers[-1].layer_output)", _normed(trial, stream)),
        "lm_head_output": ("lm_head(what the readout gives it)", _read_out(trial, stream)),
        "logits": ("lm_head_output with the readout's scales and caps", _past_head(trial, found["lm_head_output"])),
        "next_token_probs": (
            "softmax(logits[:, -1])",
            None if logits is None else torch.softmax(logits[:, -1].float(), -1),
        ),
    }
    for name, (words, tensor) in expected.items():
        read = found[name]
        if read is None:
            continue
        key = trial.owner.root.values[name].key
        if tensor is None:
            yield trial.unproven("chain", key, "model", f"no neighbour to compare with: {words}")
        else:
            yield trial.equal("chain", key, "model", f"{name} == {words}", read, tensor)


def _copy(trial: Trial, name: str) -> Tensor | None:
    """A value of the model as it was read, where it is a tensor."""
    root = trial.owner.root
    value = trial.snapshot.copy(root.point(name)) if root.absence(name) is None else None
    return value if isinstance(value, Tensor) else None


def _through(trial: Trial, role: str, tensor: Tensor | None) -> Tensor | None:
    """A module of the model, called by itself."""
    bound = trial.owner.root.roles[role]
    if isinstance(bound, Absent) or tensor is None:
        return None
    with torch.no_grad():
        return bound[0](tensor)


def _normed(trial: Trial, stream: Tensor | None) -> Tensor | None:
    """The last stream through the readout up to the norm, or, where the readout names none, through the norm alone."""
    stages = [stage.removeprefix("maybe ") for stage in _stages(trial)[0]]
    if stream is None or not stages or isinstance(trial.owner.root.roles["norm"], Absent):
        return None
    before = stages[: stages.index("norm")] if "norm" in stages else []
    with torch.no_grad():
        return reduce(lambda tensor, stage: through(trial.owner, stage, tensor), [*before, "norm"], stream)


def _stages(trial: Trial) -> tuple[list[str], list[str]]:
    """The readout's stages up to the head, and those past it."""
    readout = trial.owner.family.readout
    stages = [] if isinstance(readout, Absent) else [stage.strip() for stage in readout.split("|")]
    at = stages.index("lm_head") + 1 if "lm_head" in stages else len(stages)
    return stages[:at], stages[at:]


def _read_out(trial: Trial, stream: Tensor | None) -> Tensor | None:
    """The last stream through the readout, up to the head."""
    if stream is None or not _stages(trial)[0] or isinstance(trial.owner.root.roles["lm_head"], Absent):
        return None
    with torch.no_grad():
        return reduce(lambda tensor, stage: through(trial.owner, stage, tensor), _stages(trial)[0], stream)


def _past_head(trial: Trial, tensor: Tensor | None) -> Tensor | None:
    """The head's output through the rest of the readout."""
    if tensor is None:
        return None
    return reduce(lambda part, stage: through(trial.owner, stage, part), _stages(trial)[1], tensor)
