"""An exact patching grid on SmolLM2, against the same grid by one full forward per patch, and by TransformerLens if installed.

Prompts of 16 tokens that differ from the second on, so that 15 of 16 positions have to be patched in every block: the more
tokens two prompts share in front, the less there is to do.  All give the same numbers, which is checked.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

import nnatlas
from bench.harness import Row, ratio, shown, side_by_side
from nnatlas.patching import activation_patching

LENGTH = 16
ASKED = {"one full forward per patch": (10, 1e-4), "TransformerLens": (12, 1e-3)}
"""How many times faster than each other way, at least, and how far the numbers may be apart.

TransformerLens computes attention step by step, whose rounding is another than that of the model's own attention.
"""


def bench_patching() -> Iterator[Row]:
    """30 blocks x 16 positions of what enters each block."""
    clean = torch.randint(1000, 20000, (LENGTH,), generator=torch.Generator().manual_seed(0))
    corrupted = torch.cat([clean[:1], clean[1:].flip(0)])
    ways: dict[str, Callable[[], Tensor]] = {"one full forward per patch": lambda: by_hooks(clean, corrupted)}
    if importlib.util.find_spec("transformer_lens") is not None:
        ways["TransformerLens"] = lambda: by_bridge(clean, corrupted)
    quick = lambda: activation_patching(smollm2(), clean, corrupted, "layer_input", metric=metric).values[0]
    for name, way in ways.items():
        yield _row(name, quick, way)


def _row(name: str, quick: Callable[[], Tensor], way: Callable[[], Tensor]) -> Row:
    grids: list[Tensor] = []
    quick()
    mine, theirs = side_by_side(quick, lambda: grids.append(way()), rounds=1, warm=0)
    exact = quick()
    apart = float((grids[0] - exact).abs().max())
    faster, allowed = ASKED[name]
    if apart > allowed:
        raise AssertionError(f"{name} gives other numbers, by {apart:.1e}")
    work = f"an exact {' x '.join(map(str, exact.shape))} patching grid, SmolLM2"
    note = f"times faster than {name}; numbers within {apart:.0e}"
    return Row(work, shown(mine), shown(theirs), 1 / ratio(mine, theirs), faster, note, at_least=True)


@cache
def smollm2() -> nnatlas.StandardizedTransformer:
    """The real model: TransformerLens wants its tokenizer."""
    return nnatlas.load("smollm2")


def metric(logits: Tensor) -> Tensor:
    return logits[:, 17] - logits[:, 3]


def by_hooks(clean: Tensor, corrupted: Tensor) -> Tensor:
    """The loop that everyone writes first: a forward for each block and position, with a hook that replaces one vector."""
    model: Any = smollm2()._module
    streams: list[Tensor] = []
    with torch.no_grad():
        handles = [
            block.register_forward_pre_hook(lambda _, args: streams.append(args[0])) for block in model.model.layers
        ]
        model(clean[None])
        for handle in handles:
            handle.remove()
        blocks = list(zip(model.model.layers, streams, strict=True))
        return torch.tensor([[_patched(*block, at, corrupted) for at in range(LENGTH)] for block in blocks])


def _patched(block: Any, stream: Tensor, at: int, prompt: Tensor) -> float:
    def replace(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        patched = args[0].clone()
        patched[:, at] = stream[:, at]
        return (patched, *args[1:])

    handle = block.register_forward_pre_hook(replace)
    logits = smollm2()._module(prompt[None]).logits
    handle.remove()
    return float(metric(logits[:, -1]))


def by_bridge(clean: Tensor, corrupted: Tensor) -> Tensor:
    """As its documentation does it: cache the clean run, then `get_act_patch_resid_pre`."""
    from transformer_lens import patching

    with torch.no_grad():
        _, cached = bridge().run_with_cache(clean[None])
        judged = lambda logits: metric(logits[:, -1])[0]
        return patching.get_act_patch_resid_pre(bridge(), corrupted[None], cached, judged)


@cache
def bridge() -> Any:
    """A bridge over a copy of the same module: no hub is asked, and the module that the others use stays as it is."""
    from transformer_lens.model_bridge import TransformerBridge

    module, tokenizer = copy.deepcopy(smollm2()._module), smollm2().tokenizer
    return TransformerBridge.boot_transformers(
        "HuggingFaceTB/SmolLM2-135M", hf_model=module, tokenizer=tokenizer, device="cpu"
    )
