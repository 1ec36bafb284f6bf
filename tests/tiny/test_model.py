"""Tiny models compute something, and every part of them matters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nnatlas.errors import InputError
from nnatlas.tiny import tiny_model

PLAIN = (
    "afmoe apertus bloom cohere2 deepseek_v3 exaone4 falcon gemma2 gpt2 gpt_neox gpt_oss granite jetmoe llama mamba"
    " mixtral olmo2 opt phi qwen3_next qwen3_vl rwkv xglm"
).split()
FITTED: dict[str, dict[str, Any]] = {
    "helium": {"head_dim": 16},
    "zaya": {"layer_types": ["hybrid", "hybrid_sliding"] * 2, "sliding_window": 8, "num_experts_per_tok": 1},
    "qwen2_vl": {"text_config.rope_parameters.mrope_section": [2, 3, 3]},
}
IDS = torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def logits(model: nn.Module) -> Tensor:
    return model(input_ids=IDS).logits


@pytest.mark.parametrize("model_type", [*PLAIN, *FITTED])
def test_a_tiny_model_is_small_finite_and_far_from_neutral(model_type):
    model = tiny_model(model_type, FITTED.get(model_type))
    found = logits(model)
    assert found.shape == (2, 12, 320)
    assert 0.3 < found.std() < 5
    assert torch.equal(found, logits(model))
    assert not model.training
    assert sum(parameter.numel() for parameter in model.parameters()) < 1_500_000
    constant = [
        name for name, parameter in model.named_parameters() if parameter.numel() > 1 and parameter.std() < 1e-3
    ]
    assert not constant
    biases = [bias for name, bias in model.named_parameters() if name.endswith("bias")]
    assert all(bias.abs().max() > 0.05 for bias in biases)


def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, same, other = tiny_model("llama", seed=1), tiny_model("llama", seed=1), tiny_model("llama", seed=2)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(logits(one), logits(same))
    assert (logits(one) - logits(other)).abs().max() > 0.5


FACTORS = {
    "granite": ("embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"),
    "cohere": ("logit_scale",),
    "gemma2": ("final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar"),
    "minicpm3": ("scale_emb", "scale_depth", "dim_model_base"),
    "gpt_oss": ("swiglu_limit",),
    "olmo": ("clip_qkv",),
    "deepseek_v3": ("routed_scaling_factor",),
}


@pytest.mark.parametrize("model_type, field", [(name, field) for name, names in FACTORS.items() for field in names])
def test_every_factor_and_cap_takes_part(model_type, field):
    base = tiny_model(model_type)
    changed = tiny_model(model_type, {field: type(getattr(base.config, field))(getattr(base.config, field) * 2)})
    assert (logits(base) - logits(changed)).abs().max() > 1e-3


def test_the_window_hides_the_first_token_from_the_last():
    model = tiny_model("mistral")
    other = IDS.clone()
    other[:, 0] = (other[:, 0] + 1) % 256
    with torch.no_grad():
        first = model(input_ids=IDS, output_hidden_states=True).hidden_states[1]
        second = model(input_ids=other, output_hidden_states=True).hidden_states[1]
    assert not torch.equal(first[:, 7], second[:, 7])
    assert torch.equal(first[:, 8:], second[:, 8:])


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "gemma3_text", "zaya"])
def test_attention_is_neither_uniform_nor_decided(model_type):
    model = tiny_model(model_type, FITTED.get(model_type), attn_implementation="eager")
    with torch.no_grad():
        patterns = model(input_ids=IDS, output_attentions=True).attentions
    for pattern in patterns:
        last = pattern[:, :, -1]
        entropy = -(last.clamp(min=1e-9).log() * last).sum(-1) / (last > 0).sum(-1).log()
        assert 0.3 < entropy.mean() < 0.985


def test_streams_stay_of_the_order_of_one():
    with torch.no_grad():
        streams = tiny_model("llama")(input_ids=IDS, output_hidden_states=True).hidden_states
    sizes = [stream.pow(2).mean().sqrt() for stream in streams]
    assert all(0.1 < size < 10 for size in sizes)


def test_keywords_reach_the_model():
    model = tiny_model("llama", attn_implementation="eager", dtype=torch.bfloat16)
    assert model.config._attn_implementation == "eager"
    assert model.lm_head.weight.dtype == torch.bfloat16


def test_the_task_chooses_the_class():
    assert type(tiny_model("qwen3_5")).__name__ == "Qwen3_5ForCausalLM"
    assert type(tiny_model("qwen3_5", task="image-text-to-text")).__name__ == "Qwen3_5ForConditionalGeneration"


@pytest.mark.parametrize(
    "model_type, task, message",
    [
        ("llama", "image-text-to-text", "no image-text-to-text model of type 'llama'"),
        ("vit", None, "no language model of type 'vit'"),
        ("llama", "translation", "no task 'translation'; there are 'causal-lm' and 'image-text-to-text'"),
    ],
)
def test_a_type_without_the_task_is_an_error(model_type, task, message):
    with pytest.raises(InputError, match=message):
        tiny_model(model_type, task=task)
