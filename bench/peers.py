"""The same three reads through nnatlas and through other libraries, each as a ratio to the bare forward, in one run.

Only what can be imported is measured: none of them is a dependency, so nothing is printed where none is installed.  Each
is used as its own documentation shows, on the same module in memory, with the same prompt; what
they read is compared before anything is timed, so that all of them did the work.
"""

# ruff: noqa: RET504  a body that is traced cannot return
from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from bench.harness import Row, ratio, shown, side_by_side
from bench.models import bare, ids, ours
from nnatlas.apex import checkpoint_path

Reads = dict[str, Callable[[], Any]]
ONE, ALL, PATTERN = "one block's output", "every block's output", "one block's pattern"
COLLECTED = "every block's output, by name"


def _nnatlas(shape: str, at: int) -> Reads:
    model, prompt = ours(shape), ids(shape)

    def one() -> Tensor:
        with model.trace(prompt):
            found = model.layers[at].layer_output
        return found

    def every() -> list[Tensor]:
        with model.trace(prompt):
            found = [layer.layer_output for layer in model.layers]
        return found

    def pattern() -> Tensor:
        with model.trace(prompt):
            found = model.layers[at].self_attn.attention_probabilities
        return found

    def by_name() -> list[Tensor]:  # with the logits, so that the forward runs to its end as the others' does
        return list(model.collect(prompt, ["layers.*.layer_output", "logits"]).values())

    return {ONE: one, ALL: every, PATTERN: pattern, COLLECTED: by_name}


def _nnsight(shape: str, at: int) -> Reads:
    nnsight = importlib.import_module("nnsight")
    model, batch = nnsight.NNsight(bare(shape)), batch_of(shape)

    def one() -> Tensor:
        with model.trace(**batch):
            found = model.model.layers[at].output.save()
        return found

    def every() -> list[Tensor]:
        with model.trace(**batch):
            found = [].save()
            for layer in model.model.layers:
                found.append(layer.output)
        return found

    return {ONE: one, ALL: every}  # its pattern needs an eager load


def _nnterp(shape: str, at: int) -> Reads:
    nnterp, transformers = importlib.import_module("nnterp"), importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint_path())
    model, prompt = nnterp.StandardizedTransformer(bare(shape), tokenizer=tokenizer), ids(shape)

    def one() -> Tensor:
        with model.trace(prompt):
            found = model.layers_output[at].save()
        return found

    def every() -> list[Tensor]:
        with model.trace(prompt):
            found = [].save()
            for layer in range(model.num_layers):
                found.append(model.layers_output[layer])
        return found

    return {ONE: one, ALL: every}


def _pyvene(shape: str, at: int) -> Reads:
    pyvene = importlib.import_module("pyvene")
    module, prompt = bare(shape), ids(shape)
    places = list(range(prompt.shape[1]))

    def collector(layers: list[int]) -> Callable[[], list[Tensor]]:
        config = [
            {"layer": layer, "component": "block_output", "intervention_type": pyvene.CollectIntervention}
            for layer in layers
        ]
        model = pyvene.IntervenableModel(config, model=module)

        def collect() -> list[Tensor]:
            (_, found), _ = model(batch_of(shape), unit_locations={"base": [[places]] * len(layers)})
            return list(found)

        return collect

    return {ONE: collector([at]), ALL: collector(list(range(len(module.model.layers))))}


def _transformer_lens(shape: str, at: int) -> Reads:
    bridge, transformers = (
        importlib.import_module("transformer_lens.model_bridge"),
        importlib.import_module("transformers"),
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint_path())
    module = type(bare(shape))(bare(shape).config).eval().requires_grad_(False)  # it rewrites the module it is given
    module.load_state_dict(bare(shape).state_dict())
    model, prompt = bridge.TransformerBridge.boot_transformers(shape, hf_model=module, tokenizer=tokenizer), ids(shape)

    def reader(names: list[str]) -> Callable[[], list[Tensor]]:
        return lambda: [model.run_with_cache(prompt, names_filter=names)[1][name] for name in names[-1:]]

    blocks = range(len(module.model.layers))
    return {
        ONE: reader([f"blocks.{at}.hook_resid_post"]),
        ALL: reader([f"blocks.{block}.hook_resid_post" for block in blocks]),
        PATTERN: reader([f"blocks.{at}.attn.hook_pattern"]),
    }


def batch_of(shape: str) -> dict[str, Tensor]:
    """What a tokenizer gives: a mask costs the forward something, so everybody runs with one."""
    return {"input_ids": ids(shape), "attention_mask": torch.ones_like(ids(shape))}


PEERS = {"nnsight": _nnsight, "nnterp": _nnterp, "pyvene": _pyvene, "transformer_lens": _transformer_lens}


def bench_peers() -> Iterator[Row]:
    """One read, all reads and one pattern on the 12-layer toy, by every library that is installed."""
    shape, at = "12-layer toy", 6
    libraries = {"nnatlas": _nnatlas(shape, at), **dict(_installed(shape, at))}
    if len(libraries) == 1:
        return
    names = [(library, work) for library, reads in libraries.items() for work in reads]
    module, batch = bare(shape), batch_of(shape)
    ways = [lambda: module(**batch), *(libraries[library][work] for library, work in names)]
    bare_seconds, *seconds = side_by_side(*ways, rounds=40)
    for (library, work), taken in zip(names, seconds, strict=True):
        label = f"{library} {'' if library == 'nnatlas' else version(library.replace('_', '-'))}".strip()
        note = "against the bare forward"
        yield Row(
            f"{work}, {shape}: {label}", shown(taken), shown(bare_seconds), ratio(taken, bare_seconds), None, note
        )


def _installed(shape: str, at: int) -> Iterator[tuple[str, Reads]]:
    expected = _nnatlas(shape, at)
    for name, reads_of in PEERS.items():
        try:
            importlib.import_module(name)
        except ImportError as missing:
            print(f"{name}: not measured ({missing})")
            continue
        reads = reads_of(shape, at)
        yield name, {work: read for work, read in reads.items() if _agrees(name, work, read, expected[work])}


def _agrees(name: str, work: str, read: Callable[[], Any], expected: Callable[[], Any]) -> bool:
    """Whether a library reads what the model computes; otherwise how it does not is printed, and it is not timed."""
    try:
        torch.testing.assert_close(_last(read()), _last(expected()), atol=1e-4, rtol=1e-4)
    except AssertionError as wrong:
        print(f"{name}, {work}: not timed, since it is not the model's: {str(wrong).splitlines()[0]}")
        return False
    return True


def _last(found: Any) -> Tensor:
    """The last tensor of a read, without a batch axis of one where a library leaves it out."""
    tensor = found[-1] if isinstance(found, list) else found
    return tensor.reshape(tensor.shape[-3:] if tensor.ndim > 2 else (1, *tensor.shape))
