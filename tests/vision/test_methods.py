"""attention_to_image and image_token_effects against the same worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.vision.wrappers import pictured, wrapper

import nnatlas
from nnatlas.errors import InputError, LayoutError
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


def test_an_overlay_is_a_page_of_its_own(tmp_path: Path) -> None:
    shown = Overlay(pictured(), torch.tensor([[1.0, -2.0, 0.0]]), "what <it> is worth")
    page = shown.save(tmp_path / "seen.html").read_text(encoding="utf-8")
    assert page.count("<i title=") == 3 and "what &lt;it&gt; is worth" in page
    assert "rgba(220,40,30,0.38)" in page and "rgba(40,80,220,0.75)" in page and "data:image/png;base64," in page
    assert "http" not in page and repr(shown) == "<what <it> is worth: 1 x 3 tokens on a picture of (48, 48)>"
    assert nnatlas.vision.Overlay is Overlay
