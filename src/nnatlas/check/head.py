"""Head: the readout of the last block's stream is the model's own logits, every cap and scale included.

A lens is only as good as this: a missing scale leaves every ranking as it is and every probability wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nnatlas.check.findings import Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial
from nnatlas.places import Absent


@law("head")
def the_last_stream_reads_out_as_the_logits(trial: Trial) -> Iterator[Finding]:
    """Every stage of the row's readout in order, on the stream of the same forward that gave the logits."""
    last, root = trial.owner.blocks[-1], trial.owner.root
    found = trial.snapshot
    stream = found.copy(last.point("layer_output")) if last.absence("layer_output") is None else None
    logits = found.copy(root.point("logits")) if root.absence("logits") is None else None
    if isinstance(trial.owner.family.readout, Absent):
        yield trial.excepted("head", "logits", "model", trial.owner.family.readout.reason)
        return
    if stream is None or logits is None:
        yield trial.unproven("head", "logits", "model", "no last stream or no logits to compare")
        return
    with torch.no_grad():
        read_out = trial.model.project_on_vocab(stream)
    said = f"project_on_vocab(layers[-1].layer_output) == logits, by {trial.owner.family.readout}"
    said += ", bit for bit" if apart(read_out, logits) == 0 else ""
    yield trial.equal("head", "logits", "model", said, read_out, logits)
