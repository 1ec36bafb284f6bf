"""Reading and editing, against the bare forward and against bare PyTorch hooks that do the same."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from bench.harness import Row, ratio, shown, side_by_side
from bench.models import SHAPES, bare, ids, ours

BUDGETS = {"one read": {"135M": 1.01, "12-layer toy": 1.02}, "all layers": {"135M": 1.01, "12-layer toy": 1.05}}


def bench_reads() -> Iterator[Row]:
    """Empty run, one read, every layer's output, one pattern on an sdpa load."""
    for shape in reversed(SHAPES):
        yield from _shape(shape, rounds=200 if shape == "12-layer toy" else 80)


def _shape(shape: str, rounds: int) -> Iterator[Row]:
    module, model, prompt = bare(shape), ours(shape), ids(shape)
    batch = {
        "input_ids": prompt,
        "attention_mask": torch.ones_like(prompt),
    }  # what a tokenizer gives, and what a run passes on
    middle = model.num_layers // 2

    def forward() -> None:
        module(**batch)

    def empty() -> None:
        with model.trace(prompt):
            pass

    def one_read() -> None:
        with model.trace(prompt):
            assert model.layers[middle].layer_output is not None

    def one_hook() -> None:
        handle = module.model.layers[middle].register_forward_hook(lambda _, __, output: None)
        module(**batch)
        handle.remove()

    def all_read() -> list:
        with model.trace(prompt):
            return [layer.layer_output for layer in model.layers]

    def all_hooks() -> list:
        found: list = []
        handles = [
            block.register_forward_hook(lambda _, __, output: found.append(output)) for block in module.model.layers
        ]
        module(**batch)
        for handle in handles:
            handle.remove()
        return found

    def pattern() -> None:
        with model.trace(prompt):
            assert model.layers[middle].self_attn.attention_probabilities is not None

    ways = (forward, empty, one_read, one_hook, all_read, all_hooks, pattern)
    seconds = dict(zip((way.__name__ for way in ways), side_by_side(*ways, rounds=rounds), strict=True))

    def row(work: str, mine: str, other: str, budget: float, note: str) -> Row:
        found = ratio(seconds[mine], seconds[other])
        return Row(f"{work}, {shape}", shown(seconds[mine]), shown(seconds[other]), found, budget, note)

    hooked = f"one bare hook: {ratio(seconds['one_hook'], seconds['forward']):.3f}x"
    yield row("an opened and closed run", "empty", "forward", 1.01, "against the bare forward")
    yield row("one read", "one_read", "forward", BUDGETS["one read"][shape], f"against the bare forward; {hooked}")
    yield row(
        "every layer's output",
        "all_read",
        "all_hooks",
        BUDGETS["all layers"][shape],
        "against bare hooks doing the same",
    )
    yield row("one block's pattern on an sdpa load", "pattern", "forward", 1.05, "against the bare sdpa forward")
