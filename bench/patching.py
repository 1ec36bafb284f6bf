"""An exact patching grid on SmolLM2, against the same grid by one full forward per patch, and by TransformerLens if installed.

Prompts of 16 tokens that differ from the second on, so that 15 of 16 positions have to be patched in every block: the more
tokens two prompts share in front, the less there is to do.  All give the same numbers, which is checked.
"""

from __future__ import annotations

import copy
import importlib.util
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

import nnatlas
from bench.harness import Row, shown, timed
from nnatlas.patching import activation_patching

LENGTH = 16
Way = Callable[[], Tensor]
ASKED = {"one full forward per patch": (10, 1e-4), "TransformerLens": (12, 1e-3)}
"""How many times faster than each other way, at least, and how far the numbers may be apart.

TransformerLens computes attention step by step, whose rounding is another than that of the model's own attention.
"""


def bench_patching() -> Iterator[Row]:
    """30 blocks x 16 positions of what leaves each block."""
    clean = torch.randint(1000, 20000, (LENGTH,), generator=torch.Generator().manual_seed(0))
    corrupted = torch.cat([clean[:1], clean[1:].flip(0)])
    ways: dict[str, list[Way]] = {"one full forward per patch": by_hooks(clean, corrupted, parts=3)}
    if importlib.util.find_spec("transformer_lens") is not None:
        ways["TransformerLens"] = [lambda: by_bridge(clean, corrupted)]
    quick = lambda: activation_patching(smollm2(), clean, corrupted, metric=metric).values[0]
    for name, parts in ways.items():
        yield _row(name, quick, parts)


def _row(name: str, quick: Way, parts: list[Way]) -> Row:
    """Our way is timed before, after and between the parts of the other, which takes minutes: the machine may be busy."""
    exact, grids = quick(), []
    mine, theirs = [timed(quick)], 0.0
    for part in parts:
        theirs += timed(lambda part=part: grids.append(part()))
        mine.append(timed(quick))
    apart = float((torch.cat(grids) - exact).abs().max())
    faster, allowed = ASKED[name]
    if apart > allowed:
        raise AssertionError(f"{name} gives other numbers, by {apart:.1e}")
    work = f"an exact {' x '.join(map(str, exact.shape))} patching grid, SmolLM2"
    note = f"times faster than {name}; numbers within {apart:.0e}"
    times = theirs / statistics.median(mine)
    return Row(work, shown(mine), shown([theirs]), times, faster, note, at_least=True)


@cache
def smollm2() -> nnatlas.StandardizedTransformer:
    """The real model: TransformerLens wants its tokenizer."""
    return nnatlas.load("smollm2")


def metric(logits: Tensor) -> Tensor:
    return logits[:, 17] - logits[:, 3]


def by_hooks(clean: Tensor, corrupted: Tensor, parts: int) -> list[Way]:
    """The loop that everyone writes first: a forward for each block and position, with a hook that replaces one vector."""
    model: Any = smollm2()._module
    streams: list[Tensor] = []
    with torch.no_grad():
        handles = [
            block.register_forward_hook(lambda _, __, stream: streams.append(stream)) for block in model.model.layers
        ]
        model(clean[None])
    for handle in handles:
        handle.remove()
    blocks = list(zip(model.model.layers, streams, strict=True))
    some = -(-len(blocks) // parts)
    chunks = (blocks[at : at + some] for at in range(0, len(blocks), some))
    return [
        lambda chunk=chunk: torch.tensor([[_patched(*block, at, corrupted) for at in range(LENGTH)] for block in chunk])
        for chunk in chunks
    ]


def _patched(block: Any, stream: Tensor, at: int, prompt: Tensor) -> float:
    def replace(_: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
        patched = output.clone()
        patched[:, at] = stream[:, at]
        return patched

    handle = block.register_forward_hook(replace)
    with torch.no_grad():
        logits = smollm2()._module(prompt[None]).logits
    handle.remove()
    return float(metric(logits[:, -1]))


def by_bridge(clean: Tensor, corrupted: Tensor) -> Tensor:
    """As its documentation does it: cache the clean run, then patch at each layer and position (`resid_post`)."""
    from transformer_lens import patching

    with torch.no_grad():
        _, cached = bridge().run_with_cache(clean[None])
        judged = lambda logits: metric(logits[:, -1])[0]
        return patching.generic_activation_patch(
            bridge(), corrupted[None], cached, judged, patching.layer_pos_patch_setter, "resid_post", ("layer", "pos")
        )


@cache
def bridge() -> Any:
    """A bridge over a copy of the same module: no hub is asked, and the module that the others use stays as it is."""
    from transformer_lens.model_bridge import TransformerBridge

    module, tokenizer = copy.deepcopy(smollm2()._module), smollm2().tokenizer
    return TransformerBridge.boot_transformers(
        "HuggingFaceTB/SmolLM2-135M", hf_model=module, tokenizer=tokenizer, device="cpu"
    )
