"""Recurrences: decays keep between nothing and all, and states pass from token to token and from call to call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch.nn import functional as F

from nnatlas.bind.points import Computed
from nnatlas.bind.tree import Host
from nnatlas.check.at import At
from nnatlas.check.findings import Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import WHOLE_FORWARD, Trial

STEPS = 3


@law("chain")
def the_last_state_is_what_the_call_ends_with(trial: Trial) -> Iterator[Finding]:
    for mixer in _mixers(trial):
        at = At(trial, mixer.block or mixer)
        states, ended = at("linear_attn.states"), at("linear_attn.state_output")
        if states is not None and ended is not None:
            words = "the state after the last token is state_output"
            yield from at.equation("linear_attn.states", words, ended.float(), states[:, -1].float(), WHOLE_FORWARD)


@law("chain")
def decays_keep_between_nothing_and_all(trial: Trial) -> Iterator[Finding]:
    for mixer in _mixers(trial):
        decays = At(trial, mixer.block or mixer)("linear_attn.decays")
        if decays is not None:
            beyond = float(torch.maximum(-decays, decays - 1).max().clamp(min=0))
            where = (mixer.block or mixer).name
            yield trial.holds("chain", "linear_attn.decays", where, "decays lie between 0 and 1", beyond, 0.0)


@law("chain")
def a_scan_gates_what_it_reads(trial: Trial) -> Iterator[Finding]:
    """Where a scan applies its gate itself, the projection receives what is read from the states times the gate's SiLU."""
    for mixer in _mixers(trial):
        at = At(trial, mixer.block or mixer)
        read, gate, premix = (at(f"linear_attn.attention_{name}") for name in ("head_outputs", "gate", "premix"))
        if read is not None and isinstance(mixer.point("attention_head_outputs"), Computed):
            gated, words = read.flatten(2) * F.silu(gate), "attention_head_outputs · silu(attention_gate)"
            yield from at.equation("linear_attn.attention_premix", words, gated, premix, WHOLE_FORWARD)


@law("batch")
def a_cached_step_starts_where_the_last_one_ended(trial: Trial) -> Iterator[Finding]:
    mixers = [mixer for mixer in _mixers(trial) if not (mixer.absence("state_input") or mixer.absence("state_output"))]
    if not mixers or not trial.module.can_generate():
        return
    steps = []
    with torch.no_grad(), trial.model.generate(trial.single, max_new_tokens=STEPS, do_sample=False) as traced:
        for _ in traced.steps():
            read = [traced._run.read(mixer.point(end)) for mixer in mixers for end in ("state_input", "state_output")]
            steps.append([state.detach().clone() for state in read])
    for at, mixer in enumerate(mixers):
        pairs = [(before[2 * at + 1], after[2 * at]) for before, after in pairwise(steps)]
        worst = max(apart(given.float(), kept.float()) for kept, given in pairs)
        said = "a cached step's state_input is the last step's state_output"
        where = (mixer.block or mixer).name
        yield trial.holds("batch", "cache linear_attn.state_input", where, said, worst, trial.tolerance)


def _mixers(trial: Trial) -> Iterator[Host]:
    yield from (block.parts["linear_attn"] for block in trial.blocks if "linear_attn" in block.parts)
