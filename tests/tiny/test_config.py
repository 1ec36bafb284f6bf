"""Tiny configs keep what makes a type what it is."""

from __future__ import annotations

import pytest

from nnatlas.errors import InputError
from nnatlas.tiny import tiny_config
from nnatlas.tiny.fields import VOCAB
from nnatlas.tiny.overrides import configs_in


def test_sizes_differ_wherever_a_mix_up_could_hide():
    config = tiny_config("mistral")
    heads, groups, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    assert 1 < groups < heads
    assert len({config.hidden_size, heads * width, groups * width, config.intermediate_size, config.vocab_size}) == 5
    assert config.sliding_window == 8


@pytest.mark.parametrize("model_type", ["exaone4", "cohere2", "gpt_oss", "gemma3_text", "olmo3"])
def test_sliding_and_full_blocks_both_stay(model_type):
    config = tiny_config(model_type)
    assert set(config.layer_types) == {"sliding_attention", "full_attention"}
    assert len(config.layer_types) == config.num_hidden_layers == 4
    assert config.sliding_window == 8


def test_dense_and_sparse_blocks_both_stay():
    config = tiny_config("kimi_linear")
    assert set(config.mlp_layer_types) == {"dense", "sparse"}
    assert set(config.layer_types) == {"linear_attention", "full_attention"}


def test_more_blocks_on_request():
    assert tiny_config("llama", layers=7).num_hidden_layers == 7


def test_every_multiplier_is_its_own_and_none_is_neutral():
    config = tiny_config("granite")
    factors = [config.embedding_multiplier, config.residual_multiplier, config.logits_scaling]
    assert len(set(factors)) == 3
    assert all(abs(value - 1) > 0.1 for value in factors)
    neutral = (config.hidden_size // config.num_attention_heads) ** -0.5
    assert config.attention_multiplier not in (1.0, neutral)


def test_caps_are_low_enough_to_bite():
    config = tiny_config("gemma2")
    assert config.final_logit_softcapping == config.attn_logit_softcapping == 3.0
    assert config.query_pre_attn_scalar != config.head_dim


def test_latent_attention_has_keys_for_every_head():
    config = tiny_config("deepseek_v3")
    assert config.num_key_value_heads == config.num_attention_heads
    assert config.head_dim == config.qk_rope_head_dim
    assert config.qk_head_dim == config.qk_rope_head_dim + config.qk_nope_head_dim != config.v_head_dim
    assert config.n_routed_experts // config.n_group == 2


def test_a_block_with_its_own_head_width_keeps_it_in_proportion():
    config = tiny_config("gemma4_text")
    assert [block.head_dim for block in config.per_layer_config] == [24, 24, 24, 48]


def test_towers_shrink_with_their_images():
    config = tiny_config("llava")
    tower = config.vision_config
    assert tower.num_hidden_layers == 2
    assert tower.image_size == 4 * tower.patch_size
    assert config.text_config.num_hidden_layers == 4


@pytest.mark.parametrize("model_type", ["llava", "qwen3_vl", "gemma3", "kimi_k25"])
def test_special_tokens_fit_the_vocabulary_and_stay_apart(model_type):
    config = tiny_config(model_type)
    ids = {
        name: value for part in configs_in(config) for name, value in vars(part).items() if name.endswith("token_id")
    }
    ids = {name: value for name, value in ids.items() if isinstance(value, int)}
    assert len(ids) >= 2
    assert len(set(ids.values())) == len(ids)
    assert all(256 <= value < VOCAB for value in ids.values())


def test_an_unknown_type_is_an_error_with_the_nearest_names():
    with pytest.raises(InputError, match=r"no model type 'lama'; did you mean .*llama"):
        tiny_config("lama")
