"""Loading: every architecture of both formats does the arithmetic that its trainers defined, and wrong folders say so."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.dictionaries.folders import FEATURES, by_hand, saelens, sparsify

from nnatlas.dictionaries import load_dictionary
from nnatlas.errors import DamagedFile, InputError, LayoutError

TOKENS = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(7)) * 2


def agrees(sae, weights, config, tokens=TOKENS):
    """Encode and decode are those of the plain code; returns the features."""
    features = sae.encode(tokens)
    made = sae.decode(features, tokens)
    for row in range(tokens.shape[0]):
        for at in range(tokens.shape[1]):
            expected, decoded = by_hand(weights, config, tokens[row, at])
            torch.testing.assert_close(features[row, at], expected, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(made[row, at], decoded, atol=1e-3, rtol=1e-4)
    assert 0 < (features > 0).float().mean() < 1
    return features


@pytest.mark.parametrize(
    "architecture, settings",
    [
        ("standard", {}),
        ("standard", {"apply_b_dec_to_input": False}),
        ("standard", {"normalize_activations": "constant_norm_rescale"}),
        ("standard", {"normalize_activations": "layer_norm"}),
        ("topk", {"k": 4}),
        ("topk", {"k": 4, "rescale_acts_by_decoder_norm": True}),
        ("jumprelu", {}),
        ("gated", {}),
        ("gated", {"normalize_activations": "layer_norm"}),
    ],
)
def test_saelens_autoencoders(tmp_path, architecture, settings):
    weights, config = saelens(tmp_path, architecture, **settings)
    sae = load_dictionary(tmp_path)
    features = agrees(sae, weights, config)
    assert (sae.architecture, sae.d_in, sae.d_out, sae.size) == (architecture, 64, 64, FEATURES)
    assert sae.place.hook == "blocks.2.hook_resid_pre" and not sae.place.transcodes
    assert sae.metadata["prepend_bos"] is True and sae.metadata["model_name"] == "x"
    if "k" in settings:
        assert ((features > 0).sum(-1) <= 4).all()


@pytest.mark.parametrize(
    "architecture", ["transcoder", "skip_transcoder", "jumprelu_transcoder", "jumprelu_skip_transcoder"]
)
def test_saelens_transcoders(tmp_path, architecture):
    weights, config = saelens(tmp_path, architecture, d_out=48, hook="blocks.2.ln2.hook_normalized")
    sae = load_dictionary(tmp_path)
    agrees(sae, weights, config)
    assert sae.place.transcodes and sae.place.hook_out == "blocks.2.hook_mlp_out" and sae.d_out == 48


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation": "groupmax", "k": 6},
        {"transcode": True},
        {"transcode": True, "skip_connection": True},
    ],
)
def test_sparsify(tmp_path, settings):
    weights, config = sparsify(tmp_path / "layers.2.mlp", **settings)
    sae = load_dictionary(tmp_path / "layers.2.mlp")
    features = agrees(sae, weights, config)
    assert ((features > 0).sum(-1) <= config["k"]).all()
    assert sae.place.module and sae.place.hook == "layers.2.mlp" and sae.place.transcodes == config["transcode"]


def test_an_older_configuration_means_what_it_meant(tmp_path):
    weights, config = saelens(tmp_path, "topk", k=4)
    old = {name: config[name] for name in ("d_in", "d_sae", "dtype", "apply_b_dec_to_input")}
    old |= dict(hook_point="blocks.5.attn.hook_z", activation_fn_str="topk", activation_fn_kwargs={"k": 4})
    (tmp_path / "cfg.json").write_text(json.dumps(old | {"normalize_activations": False}))
    sae = load_dictionary(tmp_path)
    agrees(sae, weights, config)
    assert sae.place.hook == "blocks.5.attn.hook_z"
    del old["activation_fn_str"]
    save_file(
        {**weights, "finetuning_scaling_factor": torch.full((FEATURES,), 3.0)}, tmp_path / "sae_weights.safetensors"
    )
    (tmp_path / "cfg.json").write_text(json.dumps(old | {"finetuning_scaling_factor": True}))
    scaled = load_dictionary(tmp_path)
    features = scaled.encode(TOKENS)
    expected = features * 3 @ weights["W_dec"] + weights["b_dec"]
    torch.testing.assert_close(scaled.decode(features, TOKENS), expected)


def test_precision_and_device_are_chosen(tmp_path):
    saelens(tmp_path, "standard")
    sae = load_dictionary(tmp_path, dtype=torch.bfloat16, device="cpu")
    assert sae.encoder.dtype == sae.encode(TOKENS).dtype == torch.bfloat16


def test_heads_apart_are_taken_side_by_side(tmp_path):
    weights, config = saelens(tmp_path, "standard")
    sae = load_dictionary(tmp_path)
    heads = TOKENS.unflatten(-1, (4, 16))
    torch.testing.assert_close(sae.encode(heads), agrees(sae, weights, config))
    with pytest.raises(LayoutError, match=r"reads 64 numbers a token, the value is \[2, 3, 32\]"):
        sae.encode(TOKENS[..., :32])


def test_wrong_folders_say_so(tmp_path):
    with pytest.raises(InputError, match=r"should hold cfg\.json and sae_weights\.safetensors or sae\.safetensors"):
        load_dictionary(tmp_path)
    saelens(tmp_path, "temporal")
    with pytest.raises(InputError, match=r"no architecture 'temporal' is known here; there are standard, .*gated"):
        load_dictionary(tmp_path)
    saelens(tmp_path, "standard", normalize_activations="whiten")
    with pytest.raises(InputError, match="no way 'whiten' of scaling"):
        load_dictionary(tmp_path)
    saelens(tmp_path, "standard", hook_head_index=3)
    with pytest.raises(InputError, match="trained on head 3 alone"):
        load_dictionary(tmp_path)
    saelens(tmp_path, "jumprelu")
    weights = load_file(tmp_path / "sae_weights.safetensors")
    save_file({name: one for name, one in weights.items() if name != "threshold"}, tmp_path / "sae_weights.safetensors")
    with pytest.raises(DamagedFile, match=r"'threshold' is missing.*which holds W_dec, W_enc, b_dec, b_enc"):
        load_dictionary(tmp_path)
    (tmp_path / "sae_weights.safetensors").write_bytes(b"x" * 20)
    with pytest.raises(DamagedFile, match="sae_weights"):
        load_dictionary(tmp_path)
    (tmp_path / "cfg.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"cfg\.json"):
        load_dictionary(tmp_path)
    for settings, says in (({"signed": True}, "signed set"), ({"activation": "other"}, "activation 'other'")):
        sparsify(tmp_path / "layers.1", **settings)
        with pytest.raises(InputError, match=says):
            load_dictionary(tmp_path / "layers.1")
