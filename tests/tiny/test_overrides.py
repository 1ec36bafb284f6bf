"""Overrides reach what their path says."""

from __future__ import annotations

import pytest
from transformers import CONFIG_MAPPING, SiglipVisionConfig

from nnatlas.errors import InputError
from nnatlas.tiny.overrides import apply_overrides, configs_in


@pytest.fixture
def config():
    return CONFIG_MAPPING["llava"]()


def test_a_path_leads_to_one_field(config):
    apply_overrides(config, {"text_config.rms_norm_eps": 0.5, "vision_feature_layer": -1})
    assert config.text_config.rms_norm_eps == 0.5
    assert config.vision_feature_layer == -1


def test_a_star_reaches_every_config_that_has_the_field_and_no_other(config):
    apply_overrides(config, {"*.hidden_size": 40})
    assert config.text_config.hidden_size == config.vision_config.hidden_size == 40
    assert "hidden_size" not in vars(config)


def test_a_star_looks_into_dicts_too():
    config = CONFIG_MAPPING["gemma3_text"]()
    apply_overrides(config, {"*.rope_theta": 7.0})
    assert [one["rope_theta"] for one in config.rope_parameters.values()] == [7.0, 7.0]


def test_a_value_is_copied_so_that_data_stays_data(config):
    value = {"rope_type": "default", "rope_theta": 1.0}
    apply_overrides(config, {"text_config.rope_parameters": value})
    config.text_config.rope_parameters["rope_theta"] = 2.0
    assert value["rope_theta"] == 1.0


def test_a_list_from_data_becomes_the_tuple_that_a_field_holds():
    config = CONFIG_MAPPING["reformer"]()
    config.axial_pos_shape = (64, 64)
    apply_overrides(config, {"axial_pos_shape": [16, 16]})
    assert config.axial_pos_shape == (16, 16)


def test_a_whole_config_can_stand_as_a_value(config):
    apply_overrides(config, {"vision_config": {"model_type": "siglip_vision_model", "hidden_size": 48}})
    assert isinstance(config.vision_config, SiglipVisionConfig)
    assert config.vision_config.hidden_size == 48


def test_a_path_that_leads_nowhere_is_an_error_that_shows_what_there_is(config):
    with pytest.raises(InputError, match=r"'txt_config.hidden_size' leads nowhere in a 'llava' config.*text_config"):
        apply_overrides(config, {"txt_config.hidden_size": 1})


def test_a_star_that_finds_nothing_changes_nothing(config):
    before = config.to_dict()
    apply_overrides(config, {"*.no_such_field": 1})
    assert config.to_dict() == before


def test_every_sub_config_is_found_once(config):
    assert [type(part).__name__ for part in configs_in(config)] == ["LlavaConfig", "CLIPVisionConfig", "LlamaConfig"]
