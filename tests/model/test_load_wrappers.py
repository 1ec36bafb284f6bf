"""load: which class a type is loaded as, and which row describes a wrapper around another type's text model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from nnatlas import tiny
from nnatlas.errors import InputError
from nnatlas.model import load
from nnatlas.model.load import wrap

GRANITE = {
    "model_type": "granite",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 112,
    "vocab_size": 320,
    "residual_multiplier": 0.3,
    "logits_scaling": 3.0,
}
IDS = torch.arange(3, 11)[None]


def test_a_type_with_image_models_only_is_loaded_as_one(tmp_path: Path) -> None:
    module = load("tiny:llava")._module
    assert type(module).__name__ == "LlavaForConditionalGeneration"
    module.save_pretrained(tmp_path)
    tiny.byte_tokenizer().save_pretrained(tmp_path)
    again = load(tmp_path)
    assert type(again._module) is type(module)
    assert torch.equal(again._module(IDS).logits, module(IDS).logits)
    assert type(load(AutoConfig.from_pretrained(tmp_path))._module) is type(module)


def test_a_type_with_both_is_loaded_as_asked() -> None:
    assert type(load("tiny:mllama")._module).__name__ == "MllamaForCausalLM"
    image = load("tiny:mllama", task="image-text-to-text")
    assert type(image._module).__name__ == "MllamaForConditionalGeneration"
    with pytest.raises(InputError, match="task is one of"):
        load(image.config, task="translation")


def test_a_wrapper_has_the_blocks_of_its_text_model_and_its_own_readout() -> None:
    """LLaVA around a Granite: the factors on what is added count, the one on the logits does not."""
    model = wrap(tiny.tiny_model("llava_next", {"text_config": GRANITE}))
    assert model.family.name == "granite"
    assert model.family.readout == "norm | lm_head"
    prefix = load("tiny:paligemma").family
    assert prefix.name == "gemma"
    assert "positions are counted from 1" in prefix.breaks["chain unrotated_keys"]
    with model.trace(IDS):
        block = model.layers[1]
        entering, added = block.layer_input, block.self_attn.attention_output
        also, leaving, logits = block.mlp.mlp_output, block.layer_output, model.logits
    torch.testing.assert_close(entering + added + also, leaving)
    torch.testing.assert_close(model.project_on_vocab(leaving), logits)


def test_without_a_tokenizer_rows_are_padded_with_the_text_models_own_id() -> None:
    """KOSMOS-2.5 counts its positions from what is not padding, which only its text config names."""
    model = wrap(tiny.tiny_model("kosmos-2.5"))
    short, long = list(range(3, 9)), list(range(20, 32))
    with model.trace([short, long]):
        together = model.logits
    with model.trace([short]):
        alone = model.logits
    torch.testing.assert_close(together[0, -len(short) :], alone[0], rtol=1e-4, atol=1e-4)
