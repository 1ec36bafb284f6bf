"""Random programs of reads and edits, run by the engine and by an oracle that knows only PyTorch's own hooks.

A program visits places in any order; at each it reads, edits in place, assigns, or asks for gradients.  The oracle works out
from the list of places alone which visits come too late, and gives every other visit to a plain hook.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from tests.tiny_models import tiny
from torch import Tensor, nn

from nnatlas.errors import AlreadyRan

LATE, FAILED = "too late", "failed"
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


@dataclass(frozen=True)
class Place:
    """One place of a model: how the engine reads it, and where a plain hook finds it."""

    path: str
    module: nn.Module
    before: bool = False
    scale: float = 1.0


@cache
def places(model_type: str) -> list[Place]:
    """The places of the first three blocks and of the model's end, in the order of the forward."""
    model, found = tiny(model_type), []
    for i, layer in enumerate(model.layers[:3]):
        scale = getattr(model.config, "residual_multiplier", 1.0)
        out = {"falcon": "dense", "gpt2": "c_proj"}.get(model_type, "o_proj")
        attention, mlp = layer.self_attn._module, layer.mlp._module
        found += [
            Place(f"layers[{i}].layer_input", layer._module, before=True),
            Place(f"layers[{i}].self_attn.{out}.input", getattr(attention, out), before=True),
            Place(f"layers[{i}].self_attn.attention_output", attention, scale=scale),
            Place(f"layers[{i}].mlp.mlp_output", mlp, scale=scale),
            Place(f"layers[{i}].layer_output", layer._module),
        ]
    return [*found, Place("final_norm_output", model.norm._module), Place("lm_head_output", model.lm_head._module)]


@dataclass
class Visit:
    """Go to a place and do something there, in one of the modes."""

    at: int
    actions: list[tuple[str, float]]
    mode: str = "none"
    inner: Program | None = None  # another run, from start to end, inside this visit


@dataclass
class Program:
    """One run: its visits, and how it ends (normally, by an error in the body, by stop, or by an error in the forward)."""

    model_type: str
    ids: Tensor
    visits: list[Visit]
    ends: str = "normal"
    fails_at: int = 0  # the place whose module raises, for an error in the forward
    grad: bool = True
    answers: list[Any] = field(default_factory=list)
    logits: Tensor | None = None


class Mine(Exception):
    """What a program raises itself."""


# -- by the engine -----------------------------------------------------------------------------------------------------


def steps(program: Program):
    """Run a program with the engine, pausing (as a generator) before every visit, so that two can be interleaved."""
    model = tiny(program.model_type)
    handle = _failing(program)
    try:
        with torch.set_grad_enabled(program.grad), model.trace(program.ids) as run:
            for visit in program.visits:
                yield
                program.answers.append(visiting(run, program, visit))
            if program.ends == "body":
                raise Mine
            if program.ends == "stop":
                run.stop()
    except Mine:
        assert program.ends in ("body", "forward")
    finally:
        if handle is not None:
            handle.remove()
    if run.output is not None:
        program.logits = run.output.logits.detach()


def execute(program: Program) -> None:
    for _ in steps(program):
        pass


def interleave(first: Program, second: Program, turns: list[bool]) -> None:
    """Two runs side by side, one visit at a time; what is left of either runs at the end."""
    running = [steps(first), steps(second)]
    for turn in turns:
        next(running[turn], None)
    for one in running:
        for _ in one:
            pass


def _failing(program: Program) -> Any:
    if program.ends != "forward":
        return None

    def fail(*_: Any) -> None:
        raise Mine

    return places(program.model_type)[program.fails_at].module.register_forward_pre_hook(fail)


def visiting(run: Any, program: Program, visit: Visit) -> Any:
    place = places(program.model_type)[visit.at]
    node, _, name = place.path.rpartition(".")
    try:
        with MODES[visit.mode]():
            host = eval(f"run.{node}" if node else "run", {"run": run})
            return [_act(host, name, action, number, visit) for action, number in visit.actions]
    except AlreadyRan:
        return LATE
    except Mine:
        return FAILED


def _act(host: Any, name: str, action: str, number: float, visit: Visit) -> Tensor:
    if action == "scale":
        value = getattr(host, name)
        value *= number
    elif action == "slice":
        getattr(host, name)[:, -1] += number
    elif action == "assign":
        setattr(host, name, getattr(host, name) * number)
    elif action == "fill":
        setattr(host, name, number)
    elif action == "nest" and visit.inner is not None:
        execute(visit.inner)
    return getattr(host, name).detach().clone()


# -- by the oracle -----------------------------------------------------------------------------------------------------


def oracle(program: Program) -> tuple[list[Any], Tensor | None]:
    """What every visit answers, and the logits, by plain hooks alone."""
    answers, output = by_hook(program, lambda: tiny(program.model_type)._module(program.ids))
    return answers, output.logits if program.ends == "normal" else None


def by_hook(program: Program, call: Callable[[], Any]) -> tuple[list[Any], Any]:
    """What every visit answers in one call of the model, and what the call returns."""
    sites = places(program.model_type)
    answers, plan = _plan(program, sites)
    handles = [_hook(site, plan[at], answers) for at, site in enumerate(sites) if at in plan]
    try:
        with torch.no_grad():
            return answers, call()
    finally:
        for handle in handles:
            handle.remove()


def _plan(program: Program, sites: list[Place]) -> tuple[list[Any], dict[int, list[tuple[int, Visit]]]]:
    """Which visits are answered at which place, and which come too late or never."""
    stands, failed = -1, False
    answers: list[Any] = []
    plan: dict[int, list[tuple[int, Visit]]] = {}
    for number, visit in enumerate(program.visits):
        doomed = program.ends == "forward" and _comes_after(sites, visit.at, program.fails_at)
        if failed or visit.at < stands:
            answers.append(LATE)
        elif doomed:
            answers.append(FAILED)
            failed = True
        else:
            stands = visit.at
            answers.append([])
            plan.setdefault(visit.at, []).append((number, visit))
    return answers, plan


def _comes_after(sites: list[Place], at: int, failing: int) -> bool:
    """Whether a place lies after the start of the failing place's module (whose first hook raises)."""
    inside = set(sites[failing].module.modules())
    return at >= min(n for n, site in enumerate(sites) if site.module in inside)


def _hook(site: Place, visits: list[tuple[int, Visit]], answers: list[Any]) -> Any:
    def change(tensor: Tensor) -> Tensor:
        value = tensor * site.scale if site.scale != 1 else tensor.clone()
        for number, visit in visits:
            for action, amount in visit.actions:
                value = _changed(value, action, amount)
                answers[number].append(value.clone())
        return value / site.scale if site.scale != 1 else value

    def before(_: nn.Module, args: tuple, kwargs: dict) -> Any:
        if args:
            return (change(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": change(kwargs["hidden_states"])}

    def after(_: nn.Module, args: tuple, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    if site.before:
        return site.module.register_forward_pre_hook(before, with_kwargs=True)
    return site.module.register_forward_hook(after)


def _changed(value: Tensor, action: str, amount: float) -> Tensor:
    if action in ("scale", "assign"):
        return value * amount
    if action == "fill":
        return torch.full_like(value, amount)
    if action == "slice":
        value = value.clone()
        value[:, -1] += amount
    return value
