"""Which blocks a shallow config keeps."""

from __future__ import annotations

from transformers import PretrainedConfig

from nnatlas.tiny.blocks import keep_blocks, put_overrides, take_overrides

SLIDING, FULL = "sliding_attention", "full_attention"


def _config(**fields: object) -> PretrainedConfig:
    config = PretrainedConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def test_every_kind_of_block_is_kept_in_the_order_of_the_model():
    config = _config(
        num_hidden_layers=12, layer_types=[SLIDING] * 5 + [FULL] + [SLIDING] * 6, mlp=["dense"] + ["moe"] * 11
    )
    assert keep_blocks(config, 4, "num_hidden_layers") == [0, 1, 2, 5]
    assert config.layer_types == [SLIDING, SLIDING, SLIDING, FULL]
    assert config.mlp == ["dense", "moe", "moe", "moe"]
    assert config.num_hidden_layers == 4


def test_more_kinds_than_blocks_asked_for_keep_one_of_each():
    config = _config(num_hidden_layers=8, layer_types=list("aabbccdd"))
    assert keep_blocks(config, 2, "num_hidden_layers") == [0, 2, 4, 6]


def test_lists_of_block_indices_follow_the_blocks():
    config = _config(num_hidden_layers=10, cross_attention_layers=[3, 8], every_layers=list(range(10)), sizes=[1, 2, 3])
    assert keep_blocks(config, 4, "num_hidden_layers") == [0, 1, 2, 3]
    assert config.cross_attention_layers == [3]
    assert config.every_layers == [0, 1, 2, 3]
    assert config.sizes == [1, 2, 3]


def test_a_shallow_default_is_repeated():
    config = _config(n_layer=2, layer_types=[SLIDING, FULL])
    assert keep_blocks(config, 4, "n_layer") == [0, 1, 0, 1]
    assert config.n_layer == 4 and config.layer_types == [SLIDING, FULL, SLIDING, FULL]


def test_blocks_keep_their_own_fields_in_proportion():
    config = _config(num_hidden_layers=6, head_dim=256, name="a")
    config.per_layer_config = {5: {"head_dim": 512, "name": "b"}}
    own = take_overrides(config)
    config.head_dim = 24
    put_overrides(config, own, {"head_dim": 256, "name": "a"}, [0, 5])
    assert [block.head_dim for block in config.per_layer_config][:2] == [24, 48]
    assert config.per_layer_config[1].name == "b"
