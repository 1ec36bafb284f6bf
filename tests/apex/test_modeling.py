"""Sizes, names, saving, Auto classes, half precision, checkpointing, and what the document calls things."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from tests.apex.small_models import TINY, tiny_model, tokens
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

import nnatlas.apex
from nnatlas.apex.configuration import Apex1Config, is_global_layer
from nnatlas.apex.modeling import Apex1ForCausalLM, Apex1Model
from nnatlas.apex.norm import Apex1RMSNorm
from nnatlas.errors import InputError


@pytest.mark.parametrize(
    "preset, total, active",
    [
        ("tiny", 844_038, 696_582),
        ("small", 523_150_860, 447_063_564),
        ("medium", 42_717_193_252, 6_195_291_172),
        ("large", 3_747_254_251_592, 208_536_744_008),
    ],
)
def test_f25_parameter_counts(preset, total, active):
    with torch.device("meta"):
        model = Apex1ForCausalLM(Apex1Config.preset(preset))
    assert model.count_parameters() == {"total": total, "active": active, "moe_idle": total - active}


def test_the_documents_names():
    config = Apex1Config(d_model=64, n_layers=12, n_heads_q=4, n_heads_kv=1, d_head=16, local_window=32)
    assert (config.hidden_size, config.num_key_value_heads, config.sliding_window) == (64, 1, 32)
    assert [i for i in range(12) if is_global_layer(i, 6)] == [5, 11]
    assert config.layer_types.count("full_attention") == 2
    assert Apex1Config(**config.to_dict()).to_dict() == config.to_dict()
    assert Apex1Config.preset("tiny", sliding_window=8).local_window == 8
    model = tiny_model()
    names = {name.split(".", 1)[1] for name, _ in model.model.blocks.named_parameters()}
    document = {"norm1.weight", "attn.W_Q.weight", "attn.W_DKV.weight", "attn.W_KR.weight", "ffn.W_gate.weight",
                "ffn.router.weight", "ffn.shared_experts.0.W_up.weight", "skip_gate.gate_mlp.2.bias"}  # fmt: skip
    assert document <= names


@torch.no_grad()
def test_the_documents_outputs():
    model, ids = tiny_model(skip_gate_enabled=False), tokens(2, 9)
    output = model(ids, return_hidden=True)
    assert output.logits.shape == (2, 9, 64)
    assert [h.shape for h in output.spec_logits] == [(2, 9, 64)] * 4
    assert len(output.kv_caches) == 6
    head = output.hidden_states @ model.model.embedding.weight.T * model.config.logit_scale
    torch.testing.assert_close(head, output.logits)
    model.set_attn_implementation("eager")  # the one that has patterns to give
    asked = model(ids, output_hidden_states=True, output_router_logits=True, output_attentions=True)
    assert len(asked.hidden_states) == 7
    torch.testing.assert_close(asked.hidden_states[-1], output.hidden_states, atol=1e-4, rtol=0)
    assert [r.shape for r in asked.router_logits] == [(18, 4)] * 3
    assert [a.shape for a in asked.attentions] == [(2, 4, 9, 9)] * 6
    assert model(ids, use_cache=False).kv_caches is None
    assert model(ids, return_spec_logits=False).spec_logits is None


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"num_attention_heads": 5}, "5 query heads cannot share 2"),
        ({"num_experts_per_tok": 9}, "9 active experts of 4"),
        ({"qk_rope_head_dim": 3}, "must be even"),
        ({"layer_types": ["full_attention"] * 6}, "follow global_layer_freq"),
        ({"sliding_window": 1}, "counts the token itself"),
        ({"first_head_offset": 3}, "leaves a gap"),
    ],
)
def test_impossible_sizes_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        Apex1Config(**(TINY | wrong))


def test_unknown_preset_and_missing_input():
    with pytest.raises(InputError, match="tiny, small, medium, large"):
        Apex1Config.preset("huge")
    with pytest.raises(InputError, match="one of the two"):
        tiny_model()()


@torch.no_grad()
def test_saving_and_the_auto_classes(tmp_path):
    model, ids = tiny_model(), tokens(1, 10)
    model.save_pretrained(tmp_path)
    nnatlas.apex.register()
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "apex1"
    assert isinstance(AutoConfig.from_pretrained(tmp_path), Apex1Config)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, device_map="cpu")
    assert isinstance(loaded, Apex1ForCausalLM)
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    body = AutoModel.from_pretrained(tmp_path)
    assert isinstance(body, Apex1Model)
    torch.testing.assert_close(body(ids).last_hidden_state, model(ids, return_hidden=True).hidden_states)


@torch.no_grad()
@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 0.15), (torch.float16, 0.02)])
def test_f28_half_precision_stays_close(dtype, tolerance):
    model, ids = tiny_model(skip_gate_enabled=False, moe_enabled=False), tokens(1, 40)
    exact = model(ids).logits
    half = model.to(dtype)(ids).logits
    assert half.dtype == dtype
    assert (half.float() - exact).abs().max() < tolerance * exact.abs().max()


@torch.no_grad()
def test_f28_norm_of_large_numbers_in_float16():
    x = torch.full((1, 8), 300.0, dtype=torch.float16)
    torch.testing.assert_close(Apex1RMSNorm(8, 1e-6).half()(x), torch.ones(1, 8, dtype=torch.float16))


def test_gradient_checkpointing_changes_no_gradient():
    model, ids = tiny_model().train(), tokens(1, 12)
    grads = []
    for checkpointing in (False, True):
        if checkpointing:
            names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")  # since 5.23, and before
            next(getattr(model, name) for name in names if hasattr(model, name))()
        model.zero_grad()
        model(ids, labels=ids, use_cache=False).loss.backward()
        grads.append({n: p.grad.clone() for n, p in model.named_parameters()})
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, atol=1e-6, rtol=1e-4)


def test_the_untrained_weights_follow_the_document():
    torch.manual_seed(0)
    model = Apex1ForCausalLM(Apex1Config.preset("tiny"))
    for name, p in model.named_parameters():
        if "norm" in name:
            assert torch.equal(p, torch.ones_like(p))
        elif name.endswith("bias"):
            assert not p.any()
        elif p.numel() > 2000:
            assert p.std().item() == pytest.approx(0.02, rel=0.1), name
    assert model.lm_head.weight is model.model.embedding.weight


def test_the_package_is_found_without_importing_torch():
    code = "import sys, nnatlas.apex as a; a.checkpoint_path(); print([n in sys.modules for n in ('torch', 'typer')])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["[False,", "False]"]
    with pytest.raises(AttributeError, match="it has checkpoint_path, register"):
        nnatlas.apex.nothing
