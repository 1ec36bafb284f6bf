"""Chain, the MLP: from neurons through the down projection to the stream, and a mixture from its router to its sum.

Each module is called by itself on what the row says it receives; a mixture is rebuilt from its experts' own neurons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nnatlas.check.at import At
from nnatlas.check.findings import Finding, apart
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial


@law("chain")
def the_down_projection_takes_the_neurons(trial: Trial) -> Iterator[Finding]:
    """The down projection, called by itself on the neurons, gives what it gave in the forward."""
    for at in _mlps(trial):
        neurons, written = at("mlp_neurons"), at.output_of("down_proj")
        if neurons is not None and written is not None:
            projected = at.through("down_proj", neurons)
            if projected is not None:
                projected = _as_written(projected, written)
            yield from at.equation("mlp_neurons", "what down_proj's output was computed from", projected, written)


@law("chain")
def neurons_are_the_activation_gated_or_not(trial: Trial) -> Iterator[Finding]:
    """`neurons = activation` without a gate, `activation * up_proj(input)` with one; fused projections are not taken apart."""
    for at in _mlps(trial):
        activation, neurons = at("mlp_activation"), at("mlp_neurons")
        if activation is None or neurons is None:
            continue
        gated = _gated(at, activation, neurons)
        if apart(neurons, activation) <= trial.tolerance:
            yield from at.equation("mlp_activation", "mlp_neurons", neurons)
        else:
            yield from at.equation("mlp_neurons", "mlp_activation · up_proj(mlp_input)", gated)


@law("chain")
def the_mlp_adds_what_it_computed(trial: Trial) -> Iterator[Finding]:
    """What reaches the stream is the MLP's output, through the post-norm and the factors that the row states."""
    for at in _mlps(trial):
        written, words = at.output_of("mlp"), "the MLP's output"
        if not at.has("experts") and at.has("down_proj"):
            written, words = at.output_of("down_proj"), "down_proj's output"
        if at.has("mlp_post_norm"):
            written, words = at.through("mlp_post_norm", written), f"mlp_post_norm({words})"
        scaled, got = at.scaled("mlp_output", written), at("mlp_output")
        if at("mlp_gate") is not None and scaled is not None and got is not None:
            scaled, words = scaled * _passed(at("mlp_gate"), got), f"{words} where the gate is open"
        if scaled is not None and got is not None:
            scaled = _as_written(scaled, got) if scaled.numel() == got.numel() else scaled
        yield from at.equation("mlp_output", words, scaled)


@law("chain")
def the_chosen_experts_are_the_routers_best(trial: Trial) -> Iterator[Finding]:
    """The same experts, in any order, that the router's scores would choose; a choice by groups or limits is not rebuilt here."""
    for at in _mlps(trial):
        logits, chosen = at("router_logits"), at("expert_indices")
        if logits is None or chosen is None:
            continue
        key, where = "mlp.expert_indices", at.block.name
        words = next((words for words, best in _best(at, logits, chosen.shape[-1]) if _same_choice(best, chosen)), None)
        if words is None:
            yield trial.unproven(
                "chain", key, where, "the choice takes in more than scores and a bias (groups, limits)"
            )
        else:
            yield trial.holds("chain", key, where, f"the top_k of {words}", 0.0, 0.0)


@law("chain")
def greater_scores_weigh_more(trial: Trial) -> Iterator[Finding]:
    """Weights and indices belong together: softmax and sigmoid keep the order of the scores they are taken of.

    Where an expert is a pair of keys, no score is its own, and nothing is to be compared.
    """
    for at in _mlps(trial):
        logits, chosen, weights = at("router_logits"), at("expert_indices"), at("expert_weights")
        if logits is None or chosen is None or weights is None:
            continue
        if chosen.shape[-1] > 1 and _one_score_each(at):
            order = logits.float().gather(-1, chosen.long()).argsort(-1, descending=True)
            rises = weights.float().gather(-1, order).diff(dim=-1).clamp(min=0).max()
            words = "expert_weights fall as the scores of expert_indices do"
            yield trial.holds("chain", "mlp.expert_weights", at.block.name, words, float(rises), trial.tolerance)


@law("chain")
def routed_and_shared_parts_make_the_whole(trial: Trial) -> Iterator[Finding]:
    """The mixture's output is what the routed experts and the shared ones give together."""
    for at in _mlps(trial):
        routed, shared, whole = at("routed_output"), at("shared_expert_output"), at.output_of("mlp")
        if routed is not None and whole is not None:
            words = "the mixture's output" + ("" if shared is None else " less shared_expert_output")
            got = routed if shared is None else routed + shared
            yield from at.equation("routed_output", words, whole.reshape(got.shape), got)


@law("chain")
def expert_neurons_make_the_routed_output(trial: Trial) -> Iterator[Finding]:
    """Every expert's neurons through its own down projection, weighted and put back, are the routed output."""
    for at in _mlps(trial):
        neurons, routed = at("expert_neurons"), at("routed_output")
        if neurons is not None and routed is not None:
            total = at.scaled("routed_output", _weighted_sum(at, neurons, routed))
            yield from at.equation(
                "expert_neurons", "summed through the down projections: routed_output", total, routed
            )


def _one_score_each(at: At) -> bool:
    """Whether the router's scores are counted by experts: an axis that no size counts holds something else."""
    host = at.host("router_logits")
    point = host.point("router_logits") if host is not None else None
    return point is not None and point.layout.axes[-1] in point.sizes


def _passed(gate: Tensor, added: Tensor) -> Tensor:
    """1 for tokens to which something was added, 0 for the others; 1 for all where the gate does not tell the two apart."""
    opened = added.ne(0).any(-1, keepdim=True)
    fits = gate.shape == opened.shape and bool(opened.any())
    apart_by_gate = fits and bool(opened.all() or gate[~opened].max() < gate[opened].min())
    return (opened if apart_by_gate else torch.ones_like(opened)).to(added.dtype)


def _mlps(trial: Trial) -> Iterator[At]:
    """The chosen blocks that have an MLP."""
    yield from (At(trial, block) for block in trial.blocks if "mlp" in block.parts)


def _as_written(tensor: Tensor, other: Tensor) -> Tensor:
    """The tensor in the other's shape: its token axes flattened, or positions before rows."""
    turned = tensor.ndim == other.ndim and tensor.shape[:2] == other.shape[1::-1]
    return tensor.transpose(0, 1) if turned and tensor.shape != other.shape else tensor.reshape(other.shape)


def _gated(at: At, activation: Tensor, neurons: Tensor) -> Tensor | None:
    """Activation times up projection; None where the projections are fused or the MLP has no gate."""
    up = at.through("up_proj", at("mlp_input"))
    if up is None or up.numel() != activation.numel():
        return None
    return (activation * up.reshape(activation.shape)).reshape(neurons.shape)


def _best(at: At, logits: Tensor, count: int) -> Iterator[tuple[str, Tensor]]:
    """Ways in which routers choose: by their scores, or by squashed scores plus a balancing bias of the router's own."""
    logits = logits.float()
    yield "router_logits", logits.topk(count, -1).indices
    modules = [bound[0] for role in ("router", "mlp") if isinstance(bound := at.block.role(role), tuple)]
    for name, bias in (pair for module in modules for pair in (*module.named_buffers(), *module.named_parameters())):
        if bias.shape == logits.shape[-1:]:
            yield f"sigmoid(router_logits) + {name}", (logits.sigmoid() + bias).topk(count, -1).indices
            yield f"softmax(router_logits) + {name}", (logits.softmax(-1) + bias).topk(count, -1).indices


def _rows_are_neurons(experts: Any, down: Tensor, own: Tensor) -> bool:
    """Which way round the experts keep their down projections; a square one tells only by the module's own word."""
    square = down.shape[1] == down.shape[2]
    return getattr(experts, "is_transposed", False) or (not square and down.shape[1] == own.shape[-1])


def _same_choice(best: Tensor, chosen: Tensor) -> bool:
    """Whether two choices name the same experts for every token."""
    return torch.equal(best.sort(-1).values, chosen.long().sort(-1).values)


def _weighted_sum(at: At, neurons: Any, routed: Tensor) -> Tensor | None:
    """Every expert's neurons through its down projection, weighted, put back where its tokens stood."""
    experts, chosen, weights = at.module("experts"), at("expert_indices"), at("expert_weights")
    down = getattr(experts, "down_proj", None)
    if not isinstance(down, Tensor) or down.ndim != 3 or chosen is None or weights is None:
        return None
    if routed.shape[-1] not in down.shape[1:]:  # the experts work in a width of their own
        return None
    total = torch.zeros_like(routed)
    for expert in range(len(down)):
        own, positions = neurons(expert)
        rows, places = positions.unbind(-1)
        weight = (weights * (chosen == expert))[rows, places].sum(-1, keepdim=True)
        wide = down[expert].detach() if _rows_are_neurons(experts, down, own) else down[expert].detach().T
        bias = getattr(experts, "down_proj_bias", None)
        part = own @ wide if bias is None else own @ wide + bias[expert].detach()
        total.index_put_((rows, places), (part * weight).to(total.dtype), accumulate=True)
    return total
