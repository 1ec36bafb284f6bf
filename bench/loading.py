"""Loading a module that is in memory, importing, and memory over many runs."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import torch

import nnatlas
from bench.harness import Row, shown, timed
from bench.models import bare, ids, ours


def bench_load() -> Iterator[Row]:
    """`load` of a 30-layer module: time, and that no parameter is copied."""
    module = bare("135M")
    nnatlas.load(module)
    seconds = [timed(lambda: nnatlas.load(module)) for _ in range(15)]
    before = {id(parameter) for parameter in module.parameters()}
    copied = sum(id(parameter) not in before for parameter in nnatlas.load(module)._module.parameters())
    note = f"ms; parameters copied: {copied}"
    yield Row("load of a 30-layer module in memory", shown(seconds), "-", min(seconds) * 1e3, 100.0, note)


def bench_import() -> Iterator[Row]:
    """`import nnatlas` in a fresh interpreter, less the interpreter's own start."""

    def start(code: str) -> float:
        return min(timed(lambda: subprocess.run([sys.executable, "-c", code], check=True)) for _ in range(5))

    seconds = start("import nnatlas, sys; assert 'torch' not in sys.modules") - start("pass")
    yield Row("import nnatlas", f"{seconds * 1e3:.0f} ms", "-", max(seconds, 0.0), 0.1, "s; torch not imported")
    whole = start("from nnatlas import families; families.rows()") - start("pass")
    yield Row(
        "import of every family row", f"{whole * 1e3:.0f} ms", "-", max(whole, 0.0), 0.05, "s; torch not imported"
    )


def bench_memory() -> Iterator[Row]:
    """Live tensors over 1,000 runs in a row with the garbage collector off."""
    model, prompt = ours("12-layer toy"), ids("12-layer toy")[:, :4]
    counts = []
    gc.collect()
    gc.disable()
    try:
        for run in range(1000):
            with model.trace(prompt):
                stream = model.layers[3].layer_output
                model.layers[5].mlp.mlp_output[:] *= 0.5
                pattern = model.layers[8].self_attn.attention_probabilities
            if run in (1, 999):
                counts.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
    finally:
        gc.enable()
    del stream, pattern
    note = "live tensors after run 1,000 over live tensors after run 2, collector off"
    yield Row("memory of 1,000 runs", str(counts[1]), str(counts[0]), counts[1] / counts[0], 1.0, note)
