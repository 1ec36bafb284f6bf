"""One edit of every kind that a model serves, for tests that hold of all of them."""

from __future__ import annotations

from functools import cache

import torch
from tests.tiny_models import IDS, tiny

from nnatlas import edits
from nnatlas.errors import Unavailable
from nnatlas.model import StandardizedTransformer, load

FAMILIES = ["llama", "gpt2", "gpt_neox", "mixtral", "exaone4", "cohere2", "bloom", "falcon", "gpt_oss", "mamba2",
            "deepseek_v3", "apex-1"]  # fmt: skip
ATTENTION = [family for family in FAMILIES if family != "mamba2"]
MIXTURES = ["mixtral", "gpt_oss", "deepseek_v3", "apex-1"]
PROMPTS = ["The sun is low", "He said", "a b"]
GREEDY = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@cache
def model_of(family: str) -> StandardizedTransformer:
    return load(family) if family == "apex-1" else tiny(family)


def sparse_layer(model) -> int:
    """The first layer whose MLP is a mixture."""
    return next(i for i in range(model.num_layers) if serves(model, f"layers.{i}.mlp.expert_weights"))


def serves(model, name: str) -> bool:
    try:
        model.editing(name, lambda value, call: None)
    except Unavailable:
        return False
    return True


def used_expert(model) -> tuple[int, int]:
    """A mixture's layer, and the expert its last token goes to first."""
    layer = sparse_layer(model)
    return layer, int(
        model.collect(IDS, f"layers.{layer}.mlp.expert_indices")[f"layers.{layer}.mlp.expert_indices"][0, -1, 0]
    )


@cache
def contrast(family: str, method: str = "mean"):
    return edits.steering_vector(model_of(family), ["so good", "nice"], ["so bad", "ugly"], method=method)


def every_edit(family: str) -> dict[str, edits.Edit]:
    """Kinds by name; which are missing is asserted where it matters."""
    model = model_of(family)
    vector = torch.linspace(-1, 1, model.hidden_size)
    made = {
        "steer": lambda: edits.steer(model, contrast(family), layers=[0, -1], scale=3, positions=-1),
        "steer new": lambda: edits.steer(model, vector, layers=1, scale=5, on="new"),
        "heads": lambda: edits.ablate_heads(model, [(1, 0), (1, 1)]),
        "heads resampled": lambda: edits.ablate_heads(model, {1: 0}, how="resample", using=PROMPTS, seed=3),
        "neurons": lambda: edits.ablate_neurons(model, {0: [1, 5, -1]}, how="mean", using=PROMPTS),
        "experts": lambda: edits.ablate_experts(model, [used_expert(model)], how="renormalize"),
        "experts rerouted": lambda: edits.ablate_experts(model, [used_expert(model)], how="reroute", positions=-1),
        "layers": lambda: edits.ablate_layers(model, 1, how="mean", using=PROMPTS),
        "positions": lambda: edits.ablate_positions(model, [0, 2], layers=1, on="prompt"),
        "skip": lambda: edits.skip_layers(model, [1, 2], positions=slice(1, None)),
        "knockout": lambda: edits.knock_out_attention(model, None, [0, 1], heads=0),
        "routing": lambda: edits.force_routing(model, {sparse_layer(model): list(range(top_k(model)))}),
    }
    found = {}
    for name, make in made.items():
        try:
            found[name] = make()
        except (Unavailable, StopIteration):
            continue
    return found


def top_k(model) -> int:
    return model.layers[sparse_layer(model)].mlp.top_k
