"""States after every token, held against prompts cut short, formulas written out here, and cached decoding."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from tests.tiny_models import IDS, tiny

from nnatlas.errors import ReadOnly

TYPES = "bamba falcon_mamba jamba lfm2 mamba minimax qwen3_next recurrent_gemma rwkv xlstm zamba zamba2".split()


def mixers(model):
    return [block.index for block in model._owner.blocks if "linear_attn" in block.parts]


@pytest.mark.parametrize("model_type", TYPES)
def test_the_state_after_a_token_is_where_the_prompt_cut_there_ends(model_type):
    model = tiny(model_type)
    at = mixers(model)[-1]
    states = model.collect(IDS, [f"layers.{at}.linear_attn.states"])[f"layers.{at}.linear_attn.states"]
    for length in (1, 3, 6):
        name = f"layers.{at}.linear_attn.state_output"
        ended = model.collect(IDS[:, :length], [name])[name]
        assert torch.allclose(states[:, length - 1].float(), ended.float(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model_type", TYPES)
def test_a_cached_step_goes_on_where_the_last_one_ended(model_type):
    model, kept = tiny(model_type), []
    at = mixers(model)[0]
    with model.generate(IDS, max_new_tokens=3, min_new_tokens=3, do_sample=False) as run:
        for _ in run.steps():
            mixer = model.layers[at].linear_attn
            started, states, ended = mixer.state_input.clone(), mixer.states, mixer.state_output.clone()
            assert torch.allclose(states[:, -1].float(), ended.float(), rtol=1e-3, atol=1e-4)
            kept.append((started, ended))
    for (_, ended), (started, _) in pairwise(kept):
        assert torch.allclose(started, ended)
    assert len(kept) == 3


def test_the_gated_delta_rule_written_out():
    """One head of one block, token by token, from what the block itself served."""
    model = tiny("qwen3_next")
    with torch.no_grad(), model.trace(IDS):
        mixer = model.layers[1].linear_attn
        keys, values, decays, betas = mixer.attention_keys, mixer.attention_values, mixer.decays, mixer.betas
        states = mixer.states
    head, share = 3, values.shape[2] // keys.shape[2]
    state = torch.zeros(keys.shape[-1], values.shape[-1])
    for token in range(IDS.shape[1]):
        key = keys[0, token, head // share] / keys[0, token, head // share].norm()
        state = decays[0, token, head] * state
        state = state + betas[0, token, head] * torch.outer(key, values[0, token, head] - key @ state)
        assert torch.allclose(states[0, token, head], state, rtol=1e-4, atol=1e-5)


def test_a_mamba_channel_written_out():
    model = tiny("mamba")
    with torch.no_grad(), model.trace(IDS):
        mixer = model.layers[2].linear_attn
        keys, values, decays, betas = mixer.attention_keys, mixer.attention_values, mixer.decays, mixer.betas
        states, channel = mixer.states, 5
    state = torch.zeros(keys.shape[-1])
    for token in range(IDS.shape[1]):
        state = (
            decays[0, token, channel] * state + betas[0, token, channel] * values[0, token, channel] * keys[0, token]
        )
        assert torch.allclose(states[0, token, channel], state, rtol=1e-4, atol=1e-6)


def test_a_decay_of_nothing_forgets_everything_before():
    model = tiny("qwen3_next")
    with torch.no_grad(), model.trace(IDS):
        mixer = model.layers[1].linear_attn
        key, value, beta = (x[0, 4] for x in (mixer.attention_keys, mixer.attention_values, mixer.betas))
        mixer.decays[:, 4] = 0
        states, ended = mixer.states, mixer.state_output
    key = (key / key.norm(dim=-1, keepdim=True)).repeat_interleave(value.shape[0] // key.shape[0], 0)
    fresh = beta[:, None, None] * key[:, :, None] * value[:, None, :]
    assert torch.allclose(states[0, 4], fresh, rtol=1e-3, atol=1e-5)
    assert torch.allclose(states[0, -1], ended[0], rtol=1e-3, atol=1e-5)


def test_the_convolution_remembers_its_latest_gated_inputs():
    model = tiny("lfm2")
    with torch.no_grad(), model.trace(IDS):
        mixer = model.layers[0].linear_attn
        written = (mixer.betas * mixer.attention_values).clone()
        ended = mixer.state_output
    assert torch.equal(ended, written[:, -ended.shape[-1] :].transpose(1, 2))


@pytest.mark.parametrize("model_type", ["rwkv", "xlstm"])
def test_gradients_pass_where_no_cache_is_written(model_type):
    model = tiny(model_type)
    with model.trace(IDS, use_cache=False):
        values = model.layers[0].linear_attn.attention_values.requires_grad_()
        logits = model.logits
    (gradient,) = torch.autograd.grad(logits[0, -1].logsumexp(0), [values])
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("model_type", "mamba mamba2 minimax qwen3_next recurrent_gemma".split())
def test_an_edit_of_the_last_state_is_where_the_next_step_starts(model_type):
    model, started = tiny(model_type), []
    at = mixers(model)[0]
    with model.generate(IDS, max_new_tokens=2, min_new_tokens=2, do_sample=False) as run:
        for step in run.steps():
            mixer = model.layers[at].linear_attn
            started.append(mixer.state_input.clone())
            if step == 0:
                mixer.state_output[:] = 0.5
    assert started[1].eq(0.5).all()


@pytest.mark.parametrize("model_type", ["lfm2", "rwkv", "xlstm", "zamba"])
def test_a_state_that_is_put_together_is_read_only(model_type):
    model = tiny(model_type)
    refused = pytest.raises(ReadOnly, match="state_output cannot be assigned: it is computed from")
    with torch.no_grad(), model.trace(IDS), refused:
        model.layers[0].linear_attn.state_output = 0.0
