"""attention_to_image and image_token_effects against the same worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
from tests.vision.wrappers import pictured, wrapper

import nnatlas
from nnatlas.edits import ablate
from nnatlas.errors import InputError, LayoutError
from nnatlas.patching import activation_patching
from nnatlas.readouts import attention_patterns, logit_attribution, logit_lens
from nnatlas.vision import Overlay, attention_to_image, image_token_effects

PROMPT = "<image> What is it?"


def test_attention_is_the_patterns_own_row() -> None:
    model = wrapper("llava")
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        mask = model.vision.image_token_mask[0]
        pattern = model.layers[1].self_attn.attention_probabilities[0]
    shown = attention_to_image(model, PROMPT, pictured(), layer=1, head=2)
    assert torch.equal(shown.amounts.flatten(), pattern[2, -1][mask])
    mean = attention_to_image(model, PROMPT, [pictured()], layer=1, position=-2)
    assert torch.allclose(mean.amounts.flatten(), pattern[:, -2].mean(0)[mask])
    with pytest.raises(InputError, match="head 9 of 4"):
        attention_to_image(model, PROMPT, pictured(), head=9)
    with pytest.raises(LayoutError, match="16 tokens, which do not make 3 by 4"):
        attention_to_image(model, PROMPT, pictured(), grid=(3, 4))
    with pytest.raises(InputError, match="one picture"):
        attention_to_image(model, PROMPT, [pictured(), pictured(1)])


def test_the_effect_of_a_token_is_the_loss_without_it() -> None:
    model = wrapper("aya_vision")
    shown = image_token_effects(model, PROMPT, pictured(), answer=7)
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        features = model.vision.image_features.clone()
        before = model.next_token_probs[0, 7].log()
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        model.vision.image_features[3] = features.mean(0)
        after = model.next_token_probs[0, 7].log()
    assert shown.amounts.shape == (2, 2)
    assert torch.allclose(shown.amounts[1, 1], before - after, atol=1e-6)
    same = image_token_effects(model, PROMPT, pictured(), instead=pictured())
    assert same.amounts.abs().max() < 1e-5
    assert image_token_effects(model, PROMPT, pictured(), instead=pictured(1)).amounts.abs().max() > 1e-3


def test_answers_are_tokens_and_pictures_come_in_every_form() -> None:
    model = wrapper("aya_vision")
    by_text = image_token_effects(model, PROMPT, numpy.asarray(pictured()), answer="a")
    assert torch.equal(by_text.amounts, image_token_effects(model, PROMPT, pictured(), answer=ord("a")).amounts)
    assert "loss of log probability of 'a' for their mean" in by_text.title and by_text.picture.size == (48, 48)
    for fault, given in (("'ab' is 2 tokens", "ab"), ("ids of this vocabulary are 0 to 319", 999)):
        with pytest.raises(InputError, match=fault):
            image_token_effects(model, PROMPT, pictured(), answer=given)
    wide = pictured().resize((96, 48))
    with pytest.raises(LayoutError, match="became 4 tokens and the other one 8"):
        image_token_effects(wrapper("qwen2_vl"), PROMPT, pictured(), instead=wide)
    assert attention_to_image(wrapper("qwen2_vl"), PROMPT, wide, grid=(2, 4)).amounts.shape == (2, 4)
    for fault, numbers in (("layer 9 of 4", {"layer": 9}), ("position 99 of", {"position": 99})):
        with pytest.raises(InputError, match=fault):
            attention_to_image(model, PROMPT, pictured(), **numbers)


def test_sweeps_of_prompts_with_pictures_and_ablations_of_patches_are_refused_in_words() -> None:
    """They would run the ids alone, or wait for positions that patches do not have."""
    model = wrapper("aya_vision")
    one, other = (model.processor(text=[PROMPT], images=[pictured(seed)]) for seed in (0, 1))
    talks = [[{"role": "user", "content": [{"type": "image", "image": pictured(seed)}]}] for seed in (0, 1)]
    for clean, corrupted in ((one, other), talks):
        with pytest.raises(InputError, match=r"pictures would be left out.*image_token_effects"):
            activation_patching(model, clean, corrupted)
    with pytest.raises(LayoutError, match=r"with model\.editing\('vision\.layers\.0\.mlp\.mlp_output'"):
        ablate(model, "vision.layers.0.mlp.mlp_output")


@pytest.mark.parametrize("model_type", ["aya_vision", "qwen2_5_vl"])
def test_edits_of_vision_values_stand(model_type: str) -> None:
    """In runs, in calls that nobody opened a run for, and not in calls without images."""
    model = wrapper(model_type)
    batch = model._prepare(PROMPT, {"images": [pictured()]})
    with torch.no_grad():
        plain = model._module(**batch).logits
    for name in (
        "vision.layers.0.self_attn.attention_probabilities",
        "vision.layers.1.mlp.mlp_output",
        "vision.image_features",
    ):
        with torch.no_grad(), model.editing(name, lambda value, call: value * 0.5):
            alone = model._module(**batch).logits
            with model.trace(PROMPT, images=[pictured()]):
                in_run = model.logits
            with model.trace("text alone"):
                assert model.logits.isfinite().all()
        assert torch.allclose(alone, in_run, atol=1e-5) and (alone - plain).abs().max() > 1e-3, name
    with torch.no_grad():
        assert torch.equal(model._module(**batch).logits, plain)


def test_readouts_take_images() -> None:
    model = wrapper("aya_vision")
    with torch.no_grad(), model.trace(PROMPT, images=[pictured()]):
        pattern = model.layers[2].self_attn.attention_probabilities
        logits = model.logits[0]
    lens = logit_lens(model, PROMPT, images=[pictured()])
    assert torch.allclose(lens.logits_of(-1)[0], logits, atol=1e-5)
    assert torch.equal(attention_patterns(model, PROMPT, 2, images=[pictured()])[2], pattern)
    shares = logit_attribution(model, PROMPT, 5, 9, images=[pictured()])
    assert torch.allclose(shares.sum.flatten()[0], logits[-1, 5] - logits[-1, 9], atol=1e-4)


def test_an_overlay_is_a_page_of_its_own(tmp_path: Path) -> None:
    shown = Overlay(pictured(), torch.tensor([[1.0, -2.0, 0.0]]), "what <it> is worth")
    page = shown.save(tmp_path / "seen.html").read_text(encoding="utf-8")
    assert page.count("<i title=") == 3 and "what &lt;it&gt; is worth" in page
    assert "rgba(220,40,30,0.38)" in page and "rgba(40,80,220,0.75)" in page and "data:image/png;base64," in page
    assert page.count("red up to 1, blue down to -2") == 2 and "aspect-ratio:384/384" in page
    assert "nought everywhere" in Overlay(pictured(), torch.zeros(1, 1), "none").html()
    assert "http" not in page and repr(shown) == "<what <it> is worth: 1 x 3 tokens on a picture of (48, 48)>"
    assert nnatlas.vision.Overlay is Overlay
