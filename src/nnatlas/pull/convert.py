"""From a GGUF file to a folder that transformers loads, and the proof that it says what it should.

Weights are stored as float32: that is what the 4-bit blocks mean exactly, and half precision would round them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from ..errors import DamagedFile
from .checkpoints import Proof
from .gguf_model import GGUFModel
from .gguf_tokenizer import read_tokenizer
from .progress import bar


def convert(source: Path, folder: Path, *, name: str, paired_rotary: bool) -> None:
    """Write config, weights and tokenizer of the GGUF file `source` into `folder`."""
    model = GGUFModel(str(source))
    with bar(f"Converting {name}", len(model.tensors)) as done:
        weights = model.weights(paired_rotary, done)
    saved = folder / "model.safetensors"
    save_file(weights, saved, metadata={"format": "pt"})
    saved.chmod(0o644)  # it is written for its owner alone, which a cache shared by a group cannot use
    model.config.save_pretrained(folder)
    GenerationConfig.from_model_config(model.config).save_pretrained(folder)
    read_tokenizer(model.fields, model.config.max_position_embeddings).save_pretrained(folder)


def prove(folder: Path, proof: Proof) -> None:
    """Load `folder` as a user would and compare its answer with the recorded one; DamagedFile if it differs."""
    with _no_bars():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    with torch.no_grad():
        logits = model(**tokenizer(proof.prompt, return_tensors="pt")).logits[0, -1]
    probability, token = logits.softmax(-1).max(-1)
    said = tokenizer.decode([int(token)])
    if said != proof.next_token or abs(float(probability) - proof.probability) > proof.tolerance:
        raise DamagedFile(
            f"the converted model continues {proof.prompt!r} with {said!r} ({float(probability):.3f}); it should be "
            f"{proof.next_token!r} ({proof.probability:.3f}). It was not kept. Please report this, with your "
            "versions of torch, transformers and gguf."
        )


@contextmanager
def _no_bars() -> Iterator[None]:
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
