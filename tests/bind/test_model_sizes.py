"""Sizes stand on the model as well as on the host where they are read."""

from __future__ import annotations

import nnatlas


def test_the_model_has_the_sizes_of_its_blocks():
    model = nnatlas.load("tiny:llama")
    assert (model.num_layers, model.hidden_size, model.vocab_size) == (4, 64, 320)
    assert (model.num_heads, model.num_kv_heads, model.head_dim, model.qk_head_dim) == (4, 2, 24, 24)
    assert model.intermediate_size == model.layers[0].mlp.down_proj._module.in_features
    assert model.layers[0].self_attn.num_heads == 4
