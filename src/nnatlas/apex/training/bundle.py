"""From a finished run to a checkpoint small enough for the package: float16 weights, tokenizer, recipe, model card."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer

from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.card import model_card
from nnatlas.apex.training.corpus import Document, split
from nnatlas.apex.training.measure import measure
from nnatlas.apex.training.recipe import Recipe


def bundle(run: Path, documents: list[Document], destination: Path) -> None:
    """Write `run/final` to `destination`: stored in float16, loaded as float32, measured as it is stored."""
    recipe, tokenizer = Recipe.load(run), AutoTokenizer.from_pretrained(run / "final")
    destination.mkdir(parents=True, exist_ok=True)
    store_half(Apex1ForCausalLM.from_pretrained(run / "final"), destination)
    tokenizer.save_pretrained(destination)
    recipe.save(destination)
    model = Apex1ForCausalLM.from_pretrained(destination)
    numbers = measure(model, tokenizer, split(documents)[1]).as_dict()
    (destination / "measurements.json").write_text(json.dumps(numbers, indent=2) + "\n")
    (destination / "README.md").write_text(model_card(recipe, model.count_parameters(), numbers, _curve(run)))


def store_half(model: Apex1ForCausalLM, destination: Path) -> None:
    """Config and weights, the weights halved in size; router biases stay float32, and so does the model once loaded."""
    model.config.dtype = torch.float32
    model.config.use_cache = True  # training turns it off
    model.config.save_pretrained(destination)
    model.generation_config.save_pretrained(destination)
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    halved = {n: (t if n.endswith("expert_bias") else t.to(torch.float16)).contiguous() for n, t in weights.items()}
    save_file(halved, destination / "model.safetensors", metadata={"format": "pt"})


def _curve(run: Path) -> list[tuple[int, float]]:
    """(step, training loss) as the Trainer logged it."""
    states = sorted(run.glob("checkpoint-*/trainer_state.json"), key=lambda p: int(p.parent.name.split("-")[1]))
    history = json.loads(states[-1].read_text())["log_history"]
    return [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
