"""Where the image enters the text model, held against what plain PyTorch sees of the same forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.vision.wrappers import pictured, wrapper
from torch.overrides import TorchFunctionMode

from nnatlas.errors import AlreadyRan, InputError, NotInRun, ReadOnly, Unavailable
from nnatlas.model import load

PROMPT = "What is it?"
SCATTERING = ["llava", "aya_vision", "cohere2_vision", "gemma3", "idefics3", "mistral3", "qwen2_5_vl", "gemma4"]


class Scattered(TorchFunctionMode):
    """Keeps what a forward scatters."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") == "masked_scatter":
            self.mask, self.source = args[1], args[2]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("model_type", SCATTERING)
def test_what_is_scattered_is_what_enters_the_first_block(model_type: str) -> None:
    model = wrapper(model_type)
    batch = model._prepare(PROMPT, {"images": [pictured()]})
    with torch.no_grad(), Scattered() as seen:
        model._module(**batch)
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask, features = model.vision.image_token_mask, model.vision.image_features
        entering = model.layers[0].layer_input
    assert torch.equal(features, seen.source.reshape(features.shape))
    assert torch.equal(mask, seen.mask[..., 0])
    assert torch.equal(entering[mask], features)
    assert 0 < mask.sum() < mask.numel()


@pytest.mark.parametrize("model_type", ["aya_vision", "qwen3_vl"])
def test_zeroing_the_features_changes_the_logits_and_no_text(model_type: str) -> None:
    model = wrapper(model_type)
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask, entering, logits = model.vision.image_token_mask, model.layers[0].layer_input, model.logits
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        model.vision.image_features = 0
        after, changed = model.layers[0].layer_input, model.logits
    assert torch.equal(after[~mask], entering[~mask])
    assert not after[mask].any()
    assert (changed - logits).abs().max() > 0.01


def test_what_is_read_of_the_tower_decides_and_what_lies_behind_does_not() -> None:
    """LLaVA's projector reads the last block but one; Command A Vision's the normed end, Aya Vision's what comes before it."""
    llava, aya, command = wrapper("llava"), wrapper("aya_vision"), wrapper("cohere2_vision")
    assert llava.vision._host.owner.reads == ("layers[0].layer_output",)
    assert aya.vision._host.owner.reads == ("layers[1].layer_output",)
    assert command.vision._host.owner.reads == ("tower_output",)
    for model, reaches in ((llava, False), (aya, False), (command, True)):
        with torch.no_grad(), model.trace(PROMPT, images=[pictured()]) as plain:
            pass
        with torch.no_grad(), model.trace(PROMPT, images=[pictured()]) as run:
            model.vision.tower_output = torch.ones_like(model.vision.tower_output)
        assert torch.equal(run.output.logits, plain.output.logits) is not reaches


def test_an_assignment_to_what_the_wrapper_captures_reaches_it_again_and_again() -> None:
    """transformers keeps hooks on a tower from its first forward on; an edit must come before them every time."""
    model = wrapper("llava")
    for _ in range(2):
        with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
            read = model.vision.layers[0].layer_output
            model.vision.layers[0].layer_output = torch.zeros_like(read)
            assert not model.projector.projector_input.any()


def test_deepstack_adds_features_behind_the_first_blocks() -> None:
    model = wrapper("qwen3_vl")
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask = model.vision.image_token_mask
        leaving = model.layers[0].layer_output.clone()
        added = model.layers[0].added_features.clone()
        entering = model.layers[1].layer_input
        assert torch.allclose(entering[mask], leaving[mask] + added, atol=1e-6)
        assert torch.equal(entering[~mask], leaving[~mask])
        with pytest.raises(AlreadyRan, match=r"layers\[0\]\.added_features"):
            model.layers[0].added_features
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        model.layers[0].added_features[:] = 0
        assert torch.equal(model.layers[1].layer_input[mask], leaving[mask])
    with pytest.raises(AttributeError, match="added_features"):
        model.layers[3].added_features
    with model.trace("text alone"), pytest.raises(Unavailable, match="was given no images"):
        model.layers[0].added_features


def test_an_image_that_enters_in_front_of_several_blocks_is_served_at_each() -> None:
    """Granite 4 Vision adds features in its text model's own loop, by no call: what stands there afterwards is the value."""
    model = wrapper("granite4_vision")
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask = model.vision.image_token_mask
        leaving = [model.layers[0].layer_output.clone(), model.layers[0].image_stream.clone()]
        entering = model.layers[1].layer_input.clone()
        with pytest.raises(AlreadyRan, match=r"layers\[0\]\.image_stream"):
            model.layers[0].image_stream
        assert model.layers[2].image_stream.shape == leaving[1].shape
    assert torch.equal(entering[mask], leaving[1]) and not torch.allclose(leaving[0][mask], leaving[1], atol=1e-3)
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        model.layers[0].image_stream = leaving[0][mask]  # nothing is added here
        assert torch.equal(model.layers[1].layer_input, leaving[0])
    with model.trace("text alone"), pytest.raises(Unavailable, match="was given no images"):
        model.layers[0].image_stream


def test_where_noughts_enter_the_first_block_the_features_are_said_to_come_later() -> None:
    from nnatlas import families, tiny
    from nnatlas.families import wrappers

    given = {
        **families.find("granite4_vision").tiny,
        **wrappers.find("granite4_vision").tiny,
        "deepstack_layer_map": [[-1, 2]],
        "spatial_target_layers": [1, 3, 1, 3],
    }
    model = load(tiny.tiny_model("granite4_vision", given, task="image-text-to-text"))
    assert "noughts enter the first block" in model.support()["vision.image_features"]
    assert [at for at, block in enumerate(model._owner.blocks) if "image_stream" in block.values] == [0, 1, 2]


def test_an_image_in_front_of_the_text_has_no_ids_but_a_mask() -> None:
    model = wrapper("git")
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]) as run:
        mask = model.vision.image_token_mask
        assert mask.shape[1] == run.input_size[1] + 17 and mask[0, :17].all() and not mask[0, 17:].any()
        features, entering = model.vision.image_features, model.layers[0].layer_input
        assert torch.equal(entering[mask], features) and model.logits.shape[1] == mask.shape[1]
    for pictures in ([pictured(), pictured(1)], [[pictured()], []]):
        with pytest.raises(InputError, match="one picture with each prompt"):
            model.trace(
                [PROMPT] * 2 if len(pictures[-1:]) and isinstance(pictures[-1], list) else PROMPT, images=pictures
            )


@pytest.mark.parametrize("model_type", ["chameleon", "emu3", "apertus1p5"])
def test_pictures_made_into_codes_enter_as_the_codes_embeddings(model_type: str) -> None:
    model = wrapper(model_type)
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask, features = model.vision.image_token_mask, model.vision.image_features
        assert torch.equal(model.layers[0].layer_input[mask], features)
    table = model.embed_tokens._module.weight
    assert ((features[:, None] - table).abs().amax(-1).amin(-1) == 0).all()


@pytest.mark.parametrize("model_type", ["mllama", "idefics"])
def test_cross_attention_wrappers_say_where_the_image_enters_instead(model_type: str) -> None:
    model = wrapper(model_type)
    assert "attended_features" in model.support()["vision.image_features"]
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]) as plain:
        attended = model.vision.attended_features
        with pytest.raises(Unavailable, match="blocks with cross-attention"):
            model.vision.image_features
    assert attended.isfinite().all()
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]) as run:
        model.vision.attended_features = attended * 0.5
    assert (run.output.logits - plain.output.logits).abs().max() > 1e-3


@pytest.mark.parametrize("first", [True, False])
def test_a_value_of_the_tower_is_past_once_the_text_model_has_begun(first: bool) -> None:
    """Also where the first run of all was one on text, which taught nothing of the tower's order."""
    from nnatlas.model import load

    model = load("tiny:cohere2_vision", task="image-text-to-text")
    if not first:
        with model.trace("text alone"):
            model.layers[0].layer_input
    with model.trace(PROMPT, images=[pictured()]):
        model.layers[0].layer_input
        for late in (lambda: model.vision.layers[0].layer_output, lambda: model.vision.image_features):
            with pytest.raises(AlreadyRan, match=r"vision\..* has already been computed.*layers\[0\]\.layer_input"):
                late()
    with model.trace(PROMPT, images=[pictured()]):
        model.vision.layers[1].self_attn.attention_output
        for late in ("attention_queries", "attention_probabilities"):
            with pytest.raises(AlreadyRan, match=late):
                getattr(model.vision.layers[1].self_attn, late)
        with pytest.raises(AlreadyRan, match=r"vision\.layers\[0\]\.layer_input"):
            model.vision.layers[0].layer_input


def test_a_run_on_text_says_why_there_is_nothing_to_see() -> None:
    model = wrapper("aya_vision")
    with model.trace("text alone") as run:
        for node, name in (
            (model.vision, "tower_output"),
            (model.vision.layers[1].mlp, "mlp_neurons"),
            (model.projector, "projector_input"),
            (model.vision, "image_token_mask"),
        ):
            with pytest.raises(
                Unavailable, match=rf"{name} is absent in this run: this run was given no images"
            ) as raised:
                getattr(node, name)
            assert raised.value.reason.endswith("model.trace(prompt, images=[...])")
            assert not hasattr(node, name)
        assert model.logits.shape[1] == run.input_size[1]
    with pytest.raises(NotInRun, match=r"model\.vision\.tower_output"):
        model.vision.tower_output
    with pytest.raises(Unavailable, match="was given no images"):
        model.collect("text alone", "vision.layers.*.layer_output")
    with model.trace(PROMPT, images=[pictured()]), pytest.raises(ReadOnly):
        model.vision.image_token_mask = True


def test_a_generation_has_images_at_its_first_step_alone() -> None:
    model = wrapper("aya_vision")
    with torch.no_grad(), model.generate(PROMPT, images=[pictured()], max_new_tokens=3, eos_token_id=None) as run:
        seen = [hasattr(model.vision, "image_features") for _ in run.steps()]
    assert seen == [True, False, False]
    with torch.no_grad(), model.generate(PROMPT, images=[pictured()], max_new_tokens=2, eos_token_id=None) as run:
        patches = model.vision.tower_output  # transformers runs the tower before the first step
        for step in run.steps():
            if step == 0:
                with pytest.raises(AlreadyRan, match=r"before its first step.*before the loop over run\.steps"):
                    model.vision.tower_output
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        assert torch.equal(model.vision.tower_output, patches)
    assert run.output.shape[1] == len(model._prepare(PROMPT, {"images": [pictured()]})["input_ids"][0]) + 2


def test_other_models_have_no_tower_and_say_why() -> None:
    from nnatlas.model import load

    text = load("tiny:llama")
    with pytest.raises(Unavailable, match="reads text alone"):
        text.vision
    with pytest.raises(Unavailable, match="proteins, not images"):
        load("tiny:evolla").vision
