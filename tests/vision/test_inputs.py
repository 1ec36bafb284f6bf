"""Prompts with images: every way to hand them in, rows of a batch, errors, and a real processor beside a saved wrapper."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from tests.vision.wrappers import pictured, wrapper
from torch import Tensor

from nnatlas import tiny
from nnatlas.errors import InputError
from nnatlas.model import load
from nnatlas.model.load import wrap

PROMPT = "What is it?"


def logits(model: Any, prompt: Any, **given: Any) -> Tensor:
    with torch.no_grad(), model.trace(prompt, **given):
        return model.logits.clone()


def test_one_picture_in_every_form_is_one_run(tmp_path: Path) -> None:
    model, picture = wrapper("aya_vision"), pictured()
    picture.save(tmp_path / "seen.png")
    expected = logits(model, PROMPT, images=[picture])
    in_text = logits(model, f"<image>\n{PROMPT}", images=[picture])
    by_path = logits(model, PROMPT, images=[tmp_path / "seen.png"])
    alone = logits(model, [PROMPT], images=picture)
    prepared = logits(model, model._prepare(PROMPT, {"images": [picture]}))
    for found in (in_text, by_path, alone, prepared):
        assert torch.equal(found, expected)
    assert not torch.equal(logits(model, f"{PROMPT}<image>", images=[picture]), expected)


def test_chat_messages_carry_images() -> None:
    model = wrapper("aya_vision")
    pieces = [{"type": "image", "image": pictured()}, {"type": "text", "text": PROMPT}]
    talk = [{"role": "user", "content": pieces}]
    written = f"user:\n<image>{PROMPT}<|end|>assistant:\n"
    expected = logits(model, written, images=[pictured()], add_special_tokens=False)
    got = logits(model, talk)
    assert torch.equal(got[:, -expected.shape[1] :].argmax(-1)[:, -1], expected.argmax(-1)[:, -1])
    with pytest.raises(InputError, match="1 places without a picture; images= has 2"):
        model.trace([{"role": "user", "content": [{"type": "image"}]}], images=[pictured(), pictured()])
    several = logits(model, [talk, [{"role": "user", "content": "text"}]])
    assert torch.allclose(several[0, -got.shape[1] :], got[0], atol=1e-4)
    mixed = [{"role": "user", "content": [{"type": "image"}, *pieces]}]
    both = [{"role": "user", "content": [{"type": "image", "image": pictured(1)}, *pieces]}]
    assert torch.equal(logits(model, mixed, images=[pictured(1)]), logits(model, both))
    model.tokenizer.chat_template, written_before = (
        "<|begin|>" + model.tokenizer.chat_template,
        model.tokenizer.chat_template,
    )
    try:  # a begin token that the template has written is not put there once more
        with model.trace(talk):
            assert (model.input_ids == model.tokenizer.bos_token_id).sum() == 1
    finally:
        model.tokenizer.chat_template = written_before
    empty = [{"role": "user", "content": [{"type": "image"}, pieces[1]]}]
    assert torch.equal(logits(model, empty, images=[pictured()]), got)
    with pytest.raises(InputError, match="carry their images already"):
        model.trace(talk, images=[pictured()])


@pytest.mark.parametrize("model_type", ["aya_vision", "gemma3", "qwen2_vl", "idefics3", "mistral3"])
def test_one_two_and_no_pictures_in_one_batch_agree_with_each_alone(model_type: str) -> None:
    model = wrapper(model_type)
    pictures = [[pictured(0)], [pictured(1), pictured(2)], []]
    together = logits(model, [PROMPT] * 3, images=pictures)
    for row, own in enumerate(pictures):
        alone = logits(model, PROMPT, images=own)[0]
        assert torch.allclose(together[row, -len(alone) :], alone, atol=1e-3), row
    assert torch.equal(logits(model, PROMPT, images=[]), logits(model, PROMPT))


def test_what_cannot_be_run_says_what_to_type() -> None:
    model, picture = wrapper("aya_vision"), pictured()
    for given, said in (
        (dict(inputs="<image><image>", images=[picture]), "2 places '<image>' for 1 images"),
        (dict(inputs="<image> of what?"), r"1 places '<image>' for no images: trace\(prompt, images="),
        (dict(inputs="a", images=[picture, "https://x.org/a.png"]), "picture 1 of 2: no picture is fetched"),
        (dict(inputs=["a", "b"], images=[picture]), r"2 prompts need 2 lists of images.*got 1 entries"),
        (dict(inputs=[[1, 2], [3, 4]], images=[[picture], []]), "with images= the prompt is a string"),
    ):
        with pytest.raises(InputError, match=said):
            model.trace(**given)
    with pytest.raises(InputError, match="without a processor"):
        load(model._module).trace(PROMPT, images=[picture])
    with pytest.raises(InputError, match="'images' is neither"):
        load("tiny:llama").trace("a", images=[picture])


def test_text_alone_keeps_working_and_is_the_text_models() -> None:
    model = wrapper("aya_vision")
    assert model.family.name == "cohere2"
    assert model.layers[0]._path == "model.language_model.layers.0"
    assert model.embed_tokens._path == "model.language_model.embed_tokens" and model.lm_head._path == "lm_head"
    text = logits(model, ["one", "and another"])
    assert torch.allclose(text[0, -4:], logits(model, "one")[0], atol=1e-4)


def test_a_saved_wrapper_comes_back_with_its_processor(tmp_path: Path) -> None:
    """A real processor of transformers, with its Pillow image processor, in a folder beside the weights."""
    from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
    from transformers.models.llava.processing_llava import LlavaProcessor

    small = wrapper("llava")
    side = small.vision.image_size
    real = LlavaProcessor(
        LlavaImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}),
        small.tokenizer, patch_size=small.vision.patch_size, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, image_token="<image>",
    )  # fmt: skip
    small._module.save_pretrained(tmp_path)
    real.save_pretrained(tmp_path)
    model = load(tmp_path, task="image-text-to-text")
    assert type(model.processor).__name__ == "LlavaProcessor"
    batch = model.processor(text=["<image> hi", "<image> hello"], images=[pictured(0), pictured(1)], return_tensors="pt",
                            padding=True, padding_side="left")  # fmt: skip
    with torch.no_grad(), model.trace(["<image> hi", "<image> hello"], images=[[pictured(0)], [pictured(1)]]):
        assert torch.equal(model.input_ids, batch["input_ids"])
        mask, features = model.vision.image_token_mask, model.vision.image_features
        entering = model.layers[0].layer_input
    assert mask.sum(1).tolist() == [16, 16]
    assert torch.equal(entering[mask], features)
    again = copy.copy(model)
    assert again.processor is model.processor and again.vision.num_layers == 2


def test_a_processor_that_cannot_be_made_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def stumble(*_: Any, **__: Any) -> None:
        raise ImportError("requires torchvision")

    small = wrapper("llava")
    small._module.save_pretrained(tmp_path)
    small.tokenizer.save_pretrained(tmp_path)
    assert load(tmp_path).processor is None  # no file of one: nothing to say
    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", stumble)
    with pytest.warns(UserWarning, match="images= is not taken: requires torchvision"):
        model = load(tmp_path)
    assert model.processor is None and model.tokenizer is not None


def gemma3(small: Any) -> Any:
    """Gemma 3's own processor over the small wrapper's sizes."""
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
    from transformers.models.gemma3.processing_gemma3 import Gemma3Processor

    soft, side = small.config.image_token_id, small.vision.image_size
    tokenizer = tiny.byte_tokenizer(320, {soft: "<image_soft_token>", 300: "<start_of_image>", 301: "<end_of_image>"})
    named = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    for name, value in {**named, "boi_token_id": 300, "image_token_id": soft}.items():
        setattr(tokenizer, name, value)
    pictures = Gemma3ImageProcessorPil(size={"height": side, "width": side})
    return Gemma3Processor(pictures, tokenizer, image_seq_length=small.config.mm_tokens_per_image)


def idefics3(small: Any) -> Any:
    """Idefics 3's own processor, which hands pictures in by row of the batch."""
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
    from transformers.models.idefics3.processing_idefics3 import Idefics3Processor

    longest = {"longest_edge": small.vision.image_size}
    names = {small.config.image_token_id: "<image>", 300: "<fake_token_around_image>", 301: "<end_of_utterance>"}
    count = (small.vision.image_size // small.vision.patch_size // small.config.scale_factor) ** 2
    pictures = Idefics3ImageProcessorPil(size=longest, max_image_size=longest, do_image_splitting=False)
    return Idefics3Processor(pictures, tiny.byte_tokenizer(320, names), image_seq_len=count)


@pytest.mark.parametrize("made", [gemma3, idefics3])
def test_real_processors_take_one_two_and_no_pictures(made: Any) -> None:
    small = wrapper(made.__name__)
    model = load(small._module, processor=made(small))
    pictures = [[pictured(0)], [pictured(1), pictured(2)], []]
    with torch.no_grad(), model.trace([PROMPT] * 3, images=pictures):
        mask, features = model.vision.image_token_mask, model.vision.image_features
        entering, together = model.layers[0].layer_input, model.logits.clone()
    assert mask.sum(1).tolist() == [4, 8, 0]
    assert torch.equal(entering[mask], features)
    for row, own in enumerate(pictures):
        alone = logits(model, PROMPT, images=own)[0]
        assert torch.allclose(together[row, -len(alone) :], alone, atol=1e-3), row


def test_a_batch_of_pixels_needs_no_processor() -> None:
    model = wrap(wrapper("aya_vision")._module)
    batch = wrapper("aya_vision")._prepare(PROMPT, {"images": [pictured()]})
    with torch.no_grad(), model.trace(batch):
        assert model.vision.image_features.shape == (4, 64)


def test_the_small_processor_lays_pictures_out_as_its_form_says() -> None:
    from nnatlas.tiny import pictures

    class Config:
        patch_size, spatial_merge_size, temporal_patch_size = 2, 2, 2

    rising = torch.arange(3 * 8 * 4).reshape(3, 8, 4).float()
    packed = pictures.packed(Config, [rising])
    assert packed["image_grid_thw"].tolist() == [[1, 4, 2]]
    first = packed["pixel_values"].reshape(8, 3, 2, 2, 2)
    assert torch.equal(first[0, :, 0], rising[:, :2, :2]) and torch.equal(first[0, :, 1], rising[:, :2, :2])
    assert torch.equal(first[1, :, 0], rising[:, :2, 2:])  # the square's other column comes next
    assert torch.equal(first[2, :, 0], rising[:, 2:4, :2])  # then its second row
    assert torch.equal(pictures.squares(Config, [rising])["pixel_values"][1], rising[:, :2, 2:])
    shaped = pictures.shaped(Config, [rising])
    assert shaped["spatial_shapes"].tolist() == [[4, 2]] and shaped["pixel_values"].shape == (1, 8, 12)
    assert torch.equal(shaped["pixel_values"][0, 3], rising[:, 2:4, 2:].permute(1, 2, 0).flatten())


def test_a_picture_becomes_numbers_between_minus_one_and_one() -> None:
    seen = wrapper("aya_vision").processor.picture(Image.fromarray(numpy.full((9, 9, 3), 255, dtype=numpy.uint8)))
    assert seen.shape == (3, 56, 56) and torch.equal(seen, torch.ones_like(seen))


def test_a_wrapper_can_be_copied_deeply_and_its_family_pickled() -> None:
    model, picture = wrapper("aya_vision"), pictured()
    again = copy.deepcopy(model)
    torch.testing.assert_close(logits(again, PROMPT, images=[picture]), logits(model, PROMPT, images=[picture]))
    assert again is not model and pickle.loads(pickle.dumps(model.family)) == model.family
