"""Models of types that nnatlas has never heard of: known ones copied under other names, parts renamed, and some scrambled."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer, LlamaMLP, LlamaRMSNorm

from nnatlas import families
from nnatlas.tiny import tiny_model
from nnatlas.tiny.weights import perturb


class ZzzConfig(LlamaConfig):
    model_type = "zzz"


class ZzzForCausalLM(LlamaForCausalLM):
    config_class = ZzzConfig


class TurnedZzz(ZzzForCausalLM):
    """Its logits are turned around after the head: no stage of a readout does that."""

    def forward(self, *args: object, **kwargs: object) -> object:
        output = super().forward(*args, **kwargs)
        output.logits = output.logits.flip(-1)
        return output


class RenamedBlock(nn.Module):
    """Llama's block under names that nobody has guessed; what it adds is weighed by a number of the config."""

    def __init__(self, config: LlamaConfig, at: int) -> None:
        super().__init__()
        self.mixer, self.thinker = LlamaAttention(config, at), LlamaMLP(config)
        self.before_mixer = LlamaRMSNorm(config.hidden_size)
        self.before_thinker = LlamaRMSNorm(config.hidden_size)
        self.weight_of_parts = config.part_weight

    def forward(self, hidden_states: Tensor, **kwargs: object) -> Tensor:
        mixed, _ = self.mixer(self.before_mixer(hidden_states), **kwargs)
        hidden_states = hidden_states + mixed * self.weight_of_parts
        return hidden_states + self.thinker(self.before_thinker(hidden_states)) * self.weight_of_parts


class ScrambledBlock(LlamaDecoderLayer):
    """A block that turns its stream around after every other sum: no module's output is what it adds."""

    def forward(self, hidden_states: Tensor, **kwargs: object) -> Tensor:
        return super().forward(hidden_states, **kwargs).flip(-1)


def stranger(block: type[nn.Module] | None = None, whole: type[ZzzForCausalLM] = ZzzForCausalLM) -> ZzzForCausalLM:
    """A small model of type "zzz" with random weights, its blocks of another class if one is given."""
    sizes = dict(
        hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2
    )
    config = ZzzConfig(vocab_size=320, max_position_embeddings=128, **sizes)
    config.part_weight = 0.6
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = whole(config)
        if block is not None:
            model.model.layers = nn.ModuleList(block(config, at) for at in range(config.num_hidden_layers))
        perturb(model)
    return model.eval()


def copied(model_type: str, name: str) -> PreTrainedModel:
    """A small model of a type that has a row, under a type's name that has none."""
    row = families.find(model_type)
    assert row is not None
    module = tiny_model(model_type, row.tiny)
    config = type(module.config)
    module.config.__class__ = type(f"{name.title()}Config", (config,), {"model_type": name})
    return module


def disturbed(module: PreTrainedModel, path: str, disturb: Callable[[Tensor], Tensor]) -> PreTrainedModel:
    """The model with what every module of the path gives changed inside its own forward, where no module shows it."""
    for at, part in module.named_modules():
        if fnmatchcase(at, path):
            kind = type(part)

            def forward(self: nn.Module, *args: object, kind: type[nn.Module] = kind, **kwargs: object) -> object:
                given = kind.forward(self, *args, **kwargs)
                return (disturb(given[0]), *given[1:]) if isinstance(given, tuple) else disturb(given)

            part.__class__ = type(f"Disturbed{kind.__name__}", (kind,), {"forward": forward})
    return module
