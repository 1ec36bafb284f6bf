"""The Qwen-VL processors of transformers themselves, from files in a folder; they ask for torchvision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tests.vision.wrappers import pictured, wrapper

from nnatlas.errors import InputError
from nnatlas.model import load

IMAGE, VIDEO, START, STOP = "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}:{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for piece in message['content'] %}{% if piece['type'] == 'image' %}" + START + IMAGE + STOP + "{% else %}"
    "{{ piece['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)
TYPES = {
    "qwen2_vl": ("qwen2_vl", "Qwen2VL"),
    "qwen2_5_vl": ("qwen2_5_vl", "Qwen2_5_VL"),
    "qwen3_vl": ("qwen3_vl", "Qwen3VL"),
}


def tokenizer_of(config: Any) -> Any:
    """Bytes, and the tokens around an image under the names that the processors look for."""
    from nnatlas import tiny

    names = {
        config.image_token_id: IMAGE,
        config.video_token_id: VIDEO,
        config.vision_start_token_id: START,
        config.vision_end_token_id: STOP,
    }
    return tiny.byte_tokenizer(320, names)


def saved(model_type: str, folder: Path) -> Path:
    """A small model and its real processor, as a checkpoint has them."""
    pytest.importorskip(
        "torchvision", reason="the video processor that they hold needs it", exc_type=(ImportError, RuntimeError)
    )
    import importlib

    module, prefix = TYPES[model_type]
    small, path = wrapper(model_type), "transformers.models"
    vision = small.config.vision_config
    sizes = {"patch_size": vision.patch_size, "merge_size": vision.spatial_merge_size,
             "temporal_patch_size": vision.temporal_patch_size}  # fmt: skip
    cell = vision.patch_size * vision.spatial_merge_size
    pixels = {"shortest_edge": 4 * cell * cell, "longest_edge": 64 * cell * cell}
    images = importlib.import_module(f"{path}.qwen2_vl.image_processing_qwen2_vl").Qwen2VLImageProcessor
    own = module if module == "qwen3_vl" else "qwen2_vl"
    videos = getattr(
        importlib.import_module(f"{path}.{own}.video_processing_{own}"),
        {"qwen3_vl": "Qwen3VLVideoProcessor"}.get(own, "Qwen2VLVideoProcessor"),
    )
    made = getattr(importlib.import_module(f"{path}.{module}.processing_{module}"), f"{prefix}Processor")
    processor = made(images(size=pixels, **sizes), tokenizer_of(small.config), videos(**sizes), chat_template=TEMPLATE)
    small._module.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("model_type", TYPES)
def test_a_folder_with_the_real_processor_runs_images(model_type: str, tmp_path: Path) -> None:
    model = load(saved(model_type, tmp_path), task="image-text-to-text")
    assert type(model.processor).__name__ == f"{TYPES[model_type][1]}Processor"
    cell = model.vision.patch_size * model.config.vision_config.spatial_merge_size
    square, wide = pictured().resize((2 * cell, 2 * cell)), pictured(1).resize((4 * cell, 2 * cell))
    prompt = f"{START}{IMAGE}{STOP} what is it?"
    with torch.no_grad(), model.trace([prompt, f"{prompt} {prompt}", "text"], images=[[square], [wide, square], []]):
        mask, features = model.vision.image_token_mask, model.vision.image_features
        entering, logits = model.layers[0].layer_input, model.logits.clone()
    assert mask.sum(1).tolist() == [4, 12, 0] and torch.equal(entering[mask], features)
    expected = model.processor(text=[prompt], images=[square], return_tensors="pt")
    with torch.no_grad():
        alone = model._module(**expected).logits[0]
    assert torch.allclose(logits[0, -len(alone) :], alone, atol=1e-3)
    with torch.no_grad(), model.trace(prompt, images=[wide]):
        groups = model.vision.layers[0].self_attn.attention_groups
        pattern = model.vision.layers[0].self_attn.attention_probabilities
    assert len(groups) == 4 * 8 and torch.allclose(pattern.sum(-1)[:, :, 0], torch.ones(()))
    with pytest.raises(InputError, match=r"1 places '<\|image_pad\|>' for 2 images"):
        model.trace(prompt, images=[square, wide])


def test_chat_messages_and_arrays_go_through_the_real_processor(tmp_path: Path) -> None:
    model = load(saved("qwen2_5_vl", tmp_path), task="image-text-to-text")
    cell = 2 * model.vision.patch_size
    picture = pictured().resize((2 * cell, 2 * cell))
    talk = [{"role": "user", "content": [{"type": "image", "image": picture}, {"type": "text", "text": "what?"}]}]
    with torch.no_grad(), model.trace(talk):
        logits = model.logits
    written = f"user:{START}{IMAGE}{STOP}what?assistant:"
    for given in (picture, numpy.asarray(picture), torch.from_numpy(numpy.asarray(picture).copy()).permute(2, 0, 1)):
        with torch.no_grad(), model.trace(written, images=[given]):
            assert torch.allclose(model.logits, logits, atol=1e-5)
    with torch.no_grad(), model.generate(talk, max_new_tokens=2, eos_token_id=None) as run:
        features = model.vision.image_features
    assert run.output.shape[1] == logits.shape[1] + 2 and features.shape == (4, 64)
