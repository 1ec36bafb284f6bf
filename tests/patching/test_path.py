"""Path patching: all paths of a sender are the sender, one path is the freezing of everything else, written out."""

from __future__ import annotations

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED, metric
from tests.tiny_models import left_alone, tiny
from torch import Tensor

from nnatlas.errors import InputError, Unavailable
from nnatlas.patching import activation_patching, path_patching

EVERY_READER = ["layers.*.self_attn.attention_output", "layers.*.mlp.mlp_output", "logits"]
BUILDS = ["llama", "gpt2", "gpt_neox", "gemma2", "exaone4", "cohere2", "mixtral", "granite", "bloom", "deepseek_v3"]


@pytest.mark.parametrize("name", BUILDS)
def test_all_paths_from_a_sender_are_the_sender(name):
    model = tiny(name)
    for sender, over in (("attention_premix", "layer x head"), ("mlp_output", "layer x position")):
        paths = path_patching(model, CLEAN, CORRUPTED, sender, EVERY_READER, over, metric)
        whole = activation_patching(model, CLEAN, CORRUPTED, sender, over, metric)
        assert (paths.values - whole.values).abs().max() < 1e-4
        assert whole.values.std() > 1e-3


@pytest.mark.parametrize("name", ["jamba", "lfm2"])
def test_mixers_write_into_the_stream_as_attention_does(name):
    model = tiny(name)
    readers = ["layers.*.*.attention_output", "layers.*.mlp.mlp_output", "logits"]
    paths = path_patching(model, CLEAN, CORRUPTED, "attention_output", readers, "layer x position", metric)
    whole = activation_patching(model, CLEAN, CORRUPTED, "attention_output", metric=metric)
    assert (paths.values - whole.values).abs().max() < 1e-4


def frozen(model: object, sender: int, head: int, receiver: tuple[int, int]) -> float:
    """Wang et al.'s two forwards by hand: freeze every other write, note the receiver's queries; then put those in."""
    with torch.no_grad(), model.trace(CLEAN):
        clean = model.layers[sender].self_attn.attention_premix.clone()
    with torch.no_grad(), model.trace(CORRUPTED):
        writes = [(block.self_attn.attention_output.clone(), block.mlp.mlp_output.clone()) for block in model.layers]
    layer, of = receiver
    with torch.no_grad(), model.trace(CORRUPTED):
        for at, block in enumerate(model.layers):
            if at == sender:
                block.self_attn.attention_premix[:, :, head] = clean[:, :, head]
            if at == layer:
                queries = block.self_attn.attention_queries.clone()
            if at != sender:
                block.self_attn.attention_output = writes[at][0]
            block.mlp.mlp_output = writes[at][1]
    with torch.no_grad(), model.trace(CORRUPTED):
        model.layers[layer].self_attn.attention_queries[:, of] = queries[:, of]
        logits = model.logits
    return float(metric(logits[:, -1]))


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_one_receiver_is_what_freezing_all_others_gives(name):
    model = tiny(name)
    found = path_patching(model, CLEAN, CORRUPTED, receivers=("layers.3.self_attn.attention_queries", 1), metric=metric)
    for sender, head in ((0, 0), (1, 3), (2, 2)):
        assert float(found.values[0, sender, head]) == pytest.approx(frozen(model, sender, head, (3, 1)), abs=1e-4)
    assert (found.values[0, 3] - found.corrupted).abs().max() < 1e-5  # a sender beside or above it has no path to it
    assert (found.values[0, :3] - found.corrupted).abs().max() > 1e-3


def test_the_direct_path_to_the_logits_is_the_write_added_to_the_last_stream():
    model = tiny("llama")
    found = path_patching(model, CLEAN, CORRUPTED, "mlp_output", over="layer x position", metric=metric)
    both = []
    for prompt in (CLEAN, CORRUPTED):
        with torch.no_grad(), model.trace(prompt):
            both.append([block.mlp.mlp_output[:, -1].clone() for block in model.layers])
            last = model.layers[-1].layer_output[:, -1].clone()
    with torch.no_grad():
        streams = [last + clean - corrupted for clean, corrupted in zip(*both, strict=True)]
        expected = torch.stack([metric(model.project_on_vocab(stream))[0] for stream in streams])
    torch.testing.assert_close(found.values[0, :, -1], expected, atol=1e-4, rtol=0)
    assert (found.values[0, :, :-1] - found.corrupted).abs().max() < 1e-5


def test_receivers_are_found_or_refused():
    model = tiny("llama")
    with left_alone(model), pytest.raises(InputError, match="no value is called"):
        path_patching(model, CLEAN, CORRUPTED, receivers="layers.1.self_attn.attention_query", metric=metric)
    with pytest.raises(InputError, match="name values of blocks, or 'logits'"):
        path_patching(model, CLEAN, CORRUPTED, receivers="final_norm_output", metric=metric)
    with pytest.raises(InputError, match="mlp_output has no heads: its axes are batch seq hidden_size"):
        path_patching(model, CLEAN, CORRUPTED, receivers=("layers.1.mlp.mlp_output", 2), metric=metric)
    with pytest.raises(Unavailable, match="parallel"):
        path_patching(tiny("gpt_neox"), CLEAN, CORRUPTED, receivers="layers.1.layer_mid", metric=metric)


def test_the_title_tells_the_paths():
    found = path_patching(
        tiny("llama"), CLEAN, CORRUPTED, receivers=["logits", ("layers.3.self_attn.attention_keys", 1)], metric=metric
    )
    assert (
        found.title == "path patching: attention_premix, denoise, to logits, layers.3.self_attn.attention_keys head 1"
    )
    assert isinstance(found.values, Tensor) and found.values.shape == (1, 4, 4)
