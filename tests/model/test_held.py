"""Norms and readouts with their statistics held: themselves at their input, affine everywhere, refused where they are not."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import tiny
from torch import nn
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from nnatlas import families
from nnatlas.errors import Unavailable
from nnatlas.model.held import held_norm, held_readout


def norm_of(kind, size):
    torch.manual_seed(size)
    norm = {
        "layer": lambda: nn.LayerNorm(size),
        "rms": lambda: LlamaRMSNorm(size),
        "gemma": lambda: Gemma2RMSNorm(size),
    }[kind]()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("size", [8, 9, 33])
@pytest.mark.parametrize("kind", ["layer", "rms", "gemma"])
def test_a_held_norm_is_the_norm_at_its_input_and_affine(kind, size):
    norm, at = norm_of(kind, size), torch.randn(2, 3, size) * 3 + 1
    held = held_norm(norm, at)
    with torch.no_grad():
        torch.testing.assert_close(held(at).float(), norm(at), atol=1e-4, rtol=1e-4)
        one, other = torch.randn(2, 3, size), torch.randn(2, 3, size)
        nothing = held(torch.zeros_like(at))
        torch.testing.assert_close(held(one + other) - nothing, held(one) + held(other) - 2 * nothing)
        assert (held(2 * at).float() - norm(2 * at)).abs().max() > 0.5  # its scale is held, the norm's own is not


def test_its_scale_is_the_root_mean_square():
    norm, at = norm_of("rms", 16), torch.randn(1, 1, 16)
    shift = torch.randn(1, 1, 16)
    scale = (at.square().mean() + norm.variance_epsilon).rsqrt()
    moved = held_norm(norm, at)(at + shift) - held_norm(norm, at)(at)
    torch.testing.assert_close(moved.float(), shift * scale * norm.weight, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("module", [nn.Softmax(-1), nn.Linear(8, 8), nn.GELU()])
def test_what_is_no_norm_is_refused(module):
    with torch.no_grad(), pytest.raises(Unavailable, match=f"{type(module).__name__} is not a norm"):
        held_norm(module, torch.randn(1, 2, 8) * 3)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "cohere2", "granite", "opt", "bloom", "minicpm3"])
def test_a_held_readout_is_the_logits_and_affine(name):
    model = tiny(name)
    found = model.collect("Hi", ["layers.3.layer_output", "logits"])
    stream, logits = found["layers.3.layer_output"], found["logits"]
    with torch.no_grad():
        held = held_readout(model._owner, stream)
        torch.testing.assert_close(held(stream), logits, atol=1e-4, rtol=1e-4)
        nothing, half = held(torch.zeros_like(stream)), held(stream / 2)
    torch.testing.assert_close(half - nothing, (logits - nothing) / 2, atol=1e-4, rtol=1e-3)


def test_where_one_stream_is_not_read_out_it_says_why():
    unread = next(name for name, row in families.rows().items() if not isinstance(row.readout, str))
    with pytest.raises(Unavailable, match="one stream cannot be read out here"):
        held_readout(tiny(unread)._owner, torch.randn(1, 2, 64))
