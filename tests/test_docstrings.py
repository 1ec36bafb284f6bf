"""Every example in a docstring is run as it stands, and where it says what comes out, that is compared.

Examples speak of things that a reader has: `model` is SmolLM2, or what `STAGE` says for a folder; `prompt`, `prompts`, `ids`
and so on are the few below.  `...` in an expected output stands for anything.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from functools import cache
from pathlib import Path

import numpy
import pytest
import rich
import torch
from PIL import Image
from tests.dictionaries.folders import saelens

import nnatlas
from nnatlas import dictionaries, edits, families, guess, kin, patching, readouts

ELSEWHERE = {
    "nnatlas.check.sweeping.sweep": "takes processes of its own: tests/check/test_sweep.py",
    "nnatlas.check.vision.sweeping.sweep_vision": "takes processes of its own: tests/check/vision",
    "nnatlas.guess.guess": "warns, as it should: tests/guess",
    "nnatlas.encyclopedia.site.build": "builds the whole site: tests/encyclopedia",
}
"""Examples that other tests run."""

MODELS = {
    "nnatlas.edits.experts": "tiny:mixtral",
    "nnatlas.edits.routing": "tiny:mixtral",
    "nnatlas.vision": "tiny:llava",
    "nnatlas.model.support.Support": "tiny:cohere",
    "nnatlas.check.report": "tiny:llama",
    "nnatlas.cli.draft": "tiny:llama",
    "nnatlas.readouts.tuned_lens": "apex-1",
    "nnatlas.patching.path": "apex-1",
}
"""Beginning of a full name -> the model that its examples speak of, where that is not SmolLM2."""


PAIR = "The Louvre is in the city of", "The Acropolis is in the city of"
SAE = "gpt2-small-res-jb/blocks.8.hook_resid_pre"


class Checker(doctest.OutputChecker):
    """An example that says nothing of its output only has to run."""

    def check_output(self, want, got, optionflags):
        return not want or super().check_output(want, got, optionflags)


def examples():
    """Every docstring with an example, by its full name."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for info in pkgutil.walk_packages(nnatlas.__path__, "nnatlas."):
        if ".families." not in info.name and not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            found |= {
                test.name: (test, module) for test in finder.find(module, info.name, module=module) if test.examples
            }
    return found


EXAMPLES = examples()


@cache
def loaded(name):
    return nnatlas.load(name)


def lay_out(folder, model):
    """The files that examples load, as if somebody had made them."""
    saelens(folder / SAE, "standard", model.hidden_size, hook="blocks.8.hook_resid_pre", size=128)
    edits.skip_layers(model, [3]).save(folder / "formal.safetensors")


def stage(name, folder):
    """What an example may speak of without having made it."""
    model = loaded(next((own for start, own in MODELS.items() if name.startswith(start)), "smollm2"))
    lay_out(folder, model)
    code = model is loaded("apex-1")  # prompts of one length in its tokens
    clean, corrupted = ("x = [1, 2", "x = (1, 2") if code else PAIR
    return {
        "nnatlas": nnatlas,
        "torch": torch,
        "numpy": numpy,
        "rich": rich,
        "dictionaries": dictionaries,
        "edits": edits,
        "families": families,
        "guess": guess,
        "readouts": readouts,
        "patching": patching,
        "kin": kin,
        "Path": Path,
        "model": model,
        "module": model._module,
        "prompt": "The Eiffel Tower is in the city of",
        "ids": torch.tensor([[504, 9345, 314, 253]]) % model.vocab_size,
        "texts": ["def f(x):\n    return x", "for name in names:\n    print(name)"],
        "prompts": ["The sun is", "He said that"],
        "clean": clean,
        "corrupted": corrupted,
        "vector": torch.zeros(model.hidden_size),
        "edit": edits.skip_layers(model, [2]),
        "sae": dictionaries.load_dictionary(folder / SAE),
        "picture": Image.new("RGB", (32, 32), "teal"),
    }


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ELSEWHERE])
def test_an_example_runs_and_says_what_comes_out(name, tmp_path, monkeypatch, smollm2_folder):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    test, module = EXAMPLES[name]
    test.globs = {**vars(module), **stage(name, tmp_path)}
    said = []
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


def test_what_is_run_elsewhere_exists():
    assert set(ELSEWHERE) <= set(EXAMPLES)
