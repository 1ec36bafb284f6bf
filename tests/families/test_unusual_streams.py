"""Families whose stream is not one vector a token that blocks add to once: what each value means there, in numbers."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, tiny

import nnatlas
from nnatlas.errors import Unavailable

PROVEN = "gpt_neo xglm mpt openai-gpt git xlm xlnet cpmant diffllama hrm_text"


@pytest.mark.parametrize("model_type", PROVEN.split())
def test_every_law_holds(model_type):
    report = nnatlas.check(f"tiny:{model_type}")
    assert [str(failure) for failure in report.failures] == []


def read(model, *names):
    found = model.collect(IDS, list(names))
    return [found[name] for name in names]


@pytest.mark.parametrize("model_type", ["deepseek_v4", "hy_v4", "glm5_next", "qwen4_exp_text", "gemma3n_text"])
def test_parallel_streams_have_an_axis_of_their_own(model_type):
    model = tiny(model_type)
    (leaving,) = read(model, "layers.1.layer_output")
    streams = leaving.shape[2]
    assert leaving.shape == (*IDS.shape, streams, 64)
    assert streams > 1
    assert str(model.support().rows["block.layer_output"].layout) == "Own [batch seq streams hidden_size]"


def test_each_stream_takes_its_own_share_of_what_the_mlp_writes():
    model = tiny("hy_v4")
    with model.trace(IDS):
        middle = model.layers[0].layer_mid
        shares = model.layers[0].ffn_hc.output[0]
        written, leaving = model.layers[0].mlp.mlp_output, model.layers[0].layer_output
    assert shares.std() > 0.01
    torch.testing.assert_close(leaving, middle + shares[..., None] * written[..., None, :])


def test_streams_are_read_out_together():
    model = tiny("gemma3n_text")
    last, logits = read(model, "layers.3.layer_output", "logits")
    torch.testing.assert_close(model.project_on_vocab(last), logits)
    alone = last.clone()
    alone[..., 1:, :] = alone[..., :1, :]
    assert (model.project_on_vocab(alone) - logits).abs().max() > 0.1


@pytest.mark.parametrize("model_type, at", [("hrm_text", 0), ("dory", 1)])
def test_reading_a_looped_block_again_waits_for_its_next_pass(model_type, at):
    model, passes = tiny(model_type), []
    block = model.layers[at]._module
    hook = block.register_forward_hook(lambda *call: passes.append(call[2].clone()))
    with torch.no_grad():
        model._module(IDS)
    hook.remove()
    with model.trace(IDS):
        first = model.layers[at].layer_output
        model.layers[at + 1].layer_output  # goes on: asked twice at one stop, a value is the same
        again = model.layers[at].layer_output
    assert len(passes) >= 2
    torch.testing.assert_close(first, passes[0])
    torch.testing.assert_close(again, passes[1])
    assert (first - again).abs().max() > 0.01


def test_a_sum_starts_anew_at_the_first_block_of_a_stretch():
    model = tiny("inkling2_text")
    for at, starts in enumerate([True, False, True, False]):
        names = ("layer_input", "self_attn.attention_output", "mlp.mlp_output", "layer_output")
        entering, attention, mlp, leaving = read(model, *(f"layers.{at}.{name}" for name in names))
        assert ("first of a stretch" in model._owner.blocks[at].kinds) == starts
        torch.testing.assert_close(leaving, attention + mlp if starts else entering + attention + mlp)


def test_the_last_attention_hands_its_bias_to_the_block():
    model = tiny("gpt_neox_japanese")
    with model.trace(IDS):
        before = model.layers[-1].self_attn.o_proj.output
        added = model.layers[-1].self_attn.attention_output
    bias = model.layers[-1]._module.attention.dense_bias
    torch.testing.assert_close(added, before + bias)
    assert bias.abs().max() > 0.01


def test_both_sublayers_of_a_double_block_are_in_its_sum():
    model = tiny("longcat_flash")
    names = ("layer_input", "layer_mid", "self_attn.attention_output", "mlp.mlp_output", "layer_output")
    entering, middle, attention, mixture, leaving = read(model, *(f"layers.1.{name}" for name in names))
    torch.testing.assert_close(middle, entering + attention)
    assert (leaving - middle - mixture).abs().max() > 0.1  # the second attention and the dense MLPs


def test_the_parts_of_a_block_may_lie_in_lists_beside_it():
    model = tiny("xlm")
    assert model._owner.blocks[2].role("mlp")[1] == "transformer.ffns.2"
    middle, written, leaving = read(model, *(f"layers.2.{n}" for n in ("layer_mid", "mlp.mlp_output", "layer_output")))
    torch.testing.assert_close(leaving, model._module.transformer.layer_norm2[2](middle + written))


def test_a_prompt_of_the_models_own_stands_in_front():
    model = tiny("cpmant")
    leaving, logits = read(model, "layers.0.layer_output", "logits")
    assert leaving.shape[1] - 4 == logits.shape[1] == IDS.shape[1]


def test_one_of_two_streams_cannot_be_read_out_alone():
    model = tiny("reformer")
    with pytest.raises(Unavailable, match="both streams side by side"):
        model.project_on_vocab(torch.zeros(1, 2, 64))


@pytest.mark.parametrize("model_type", ["blip-2", "idefics"])
def test_a_model_that_refuses_text_alone_is_put_on_trial_with_an_image(model_type):
    report = nnatlas.check(f"tiny:{model_type}", laws=["residual", "head", "shape"])
    assert [str(failure) for failure in report.failures] == []
    assert report.laws["residual"]["holds"] == 4
