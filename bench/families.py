"""Opening and closing a run that reads nothing, on ten families of different build, against the bare forward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import nnatlas
from bench.harness import Row, ratio, shown, side_by_side

SIZES: dict[str, Any] = {"hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8, "vocab_size": 8192}
GROUPED: dict[str, Any] = {**SIZES, "num_key_value_heads": 2, "intermediate_size": 1024, "head_dim": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": GROUPED,
    "qwen3": GROUPED,
    "gemma2": GROUPED,
    "cohere2": GROUPED,
    "mixtral": {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt2": SIZES,
    "gpt_neox": {**SIZES, "intermediate_size": 1024},
    "falcon": SIZES,
    "bloom": SIZES,
    "mamba2": {"hidden_size": 512, "num_hidden_layers": 12, "vocab_size": 8192, "num_heads": 16, "head_dim": 64},
}
"""Model type -> config fields of a model small enough to build in a moment, large enough to have something to do."""


@torch.no_grad()
def bench_empty_runs() -> Iterator[Row]:
    """One row a family; the prompt is 128 tokens."""
    prompt = torch.arange(128)[None]
    batch = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    for family, fields in FAMILIES.items():
        torch.manual_seed(0)
        module = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **fields)).eval()
        model = nnatlas.load(module)

        def empty(model: nnatlas.StandardizedTransformer = model) -> None:
            with model.trace(prompt):
                pass

        mine, theirs = side_by_side(empty, lambda module=module: module(**batch), rounds=40)
        work = f"an opened and closed run, {family}"
        yield Row(work, shown(mine), shown(theirs), ratio(mine, theirs), 1.01, "against the bare forward")
