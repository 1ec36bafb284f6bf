"""What `load` takes besides names: modules inside wrappers; and what it says of anything else."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tests.tiny_models import IDS, plain, tiny
from torch import nn

from nnatlas.errors import InputError, NotInRun
from nnatlas.model import load


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_adapters_are_inside_and_read_through_their_wrapper():
    peft = pytest.importorskip("peft")
    made = peft.LoraConfig(target_modules=["q_proj", "o_proj"], r=4, init_lora_weights=False, task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(copy.deepcopy(tiny()._module), made).eval()
    model = load(wrapped)
    expected = plain(model, IDS, {"x": wrapped.base_model.model.model.layers[1].self_attn.o_proj})
    with model.trace(IDS):
        added, logits = model.layers[1].self_attn.attention_output, model.logits
    assert torch.equal(added, expected["x"]) and torch.equal(logits, wrapped(input_ids=IDS).logits)
    assert not torch.allclose(logits, tiny()._module(IDS).logits, atol=1e-2)
    in_front = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    prompted = peft.get_peft_model(copy.deepcopy(tiny()._module), in_front).eval()
    with (model := load(prompted)).trace(IDS):
        assert model.layers[1].layer_output.shape[1] == 3 + IDS.shape[1]
        assert torch.equal(model.logits, prompted(input_ids=IDS).logits)


class Wrapper(nn.Module):
    """What PEFT's wrapper has of interest."""

    def __init__(self, inner):
        super().__init__()
        self.base_model, self.config = nn.ModuleList([inner]), inner.config

    def get_base_model(self):
        return self.base_model[0]


def test_the_model_inside_a_wrapper_of_adapters():
    module = tiny()._module
    assert load(Wrapper(module))._module is module
    with pytest.raises(InputError, match=r"DataParallel is not a transformers model.*hand in the model inside it"):
        load(nn.DataParallel(module))
    with pytest.raises(InputError, match="LlamaModel has no head: load the language model around it"):
        load(module.model)


@pytest.mark.parametrize("wrong", [None, 12, {}, [], torch.zeros(1)], ids=lambda wrong: type(wrong).__name__)
def test_what_is_nothing_to_load(wrong):
    with pytest.raises(InputError, match=rf"a config or a built module, not a {type(wrong).__name__}"):
        load(wrong)


def test_options_of_tiny_models():
    with pytest.raises(InputError, match="takes attn_implementation, dtype, seed; not num_hidden_layers"):
        load("tiny:llama", num_hidden_layers=2)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_no_copies_in_a_run(copied):
    """They would carry the run's hooks along."""
    model = load("tiny:llama")
    with model.trace(IDS):
        model.layers[1].layer_output
        with pytest.raises(NotInRun, match="copy or pickle outside of runs"):
            copied(model)
    assert copied(model)
