"""Folders as SAELens and sparsify write them, with random weights, and their arithmetic written out token by token."""

from __future__ import annotations

import json
import math

import torch
from safetensors.torch import save_file

FEATURES = 24


def saelens(
    folder, architecture, d_in=64, d_out=None, hook="blocks.2.hook_resid_pre", seed=0, size=FEATURES, **settings
):
    """Write a folder in the form of version 6 and later; returns its weights and configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    draw, out = torch.Generator().manual_seed(seed), d_out or d_in
    random = lambda *shape, scale=1.0: torch.randn(*shape, generator=draw) * scale
    weights = {
        "W_enc": random(d_in, size, scale=0.3),
        "W_dec": random(size, out, scale=0.3),
        "b_dec": random(out),
    }
    if architecture == "gated":
        weights |= {name: random(size, scale=0.3) for name in ("b_gate", "b_mag", "r_mag")}
    else:
        weights["b_enc"] = random(size)
    if "jumprelu" in architecture:
        weights["threshold"] = random(size).abs()
    if "skip" in architecture:
        weights["W_skip"] = random(out, d_in, scale=0.3)
    config = dict(
        d_in=d_in, d_sae=size, dtype="float32", device="cuda", architecture=architecture, apply_b_dec_to_input=True,
        normalize_activations="none", reshape_activations="none",
        metadata=dict(model_name="x", hook_name=hook, sae_lens_version="6.5.0", prepend_bos=True),
    )  # fmt: skip
    if "transcoder" in architecture:
        config |= dict(d_out=out, apply_b_dec_to_input=False)
        config["metadata"]["hook_name_out"] = "blocks.2.hook_mlp_out"
    config |= settings
    save_file(weights, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(json.dumps(config))
    return weights, config


def sparsify(folder, d_in=64, seed=0, **settings):
    """Write a folder as sparsify does."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = torch.Generator().manual_seed(seed)
    random = lambda *shape: torch.randn(*shape, generator=draw) * 0.3
    weights = {"encoder.weight": random(FEATURES, d_in), "encoder.bias": random(FEATURES)}
    weights |= {"W_dec": random(FEATURES, d_in), "b_dec": random(d_in)}
    config = dict(
        activation="topk", expansion_factor=32, normalize_decoder=True, num_latents=FEATURES, k=5, multi_topk=False,
        skip_connection=False, transcode=False, d_in=d_in,
    )  # fmt: skip
    config |= settings
    if config["skip_connection"]:
        weights["W_skip"] = random(d_in, d_in)
    save_file(weights, folder / "sae.safetensors")
    (folder / "cfg.json").write_text(json.dumps(config))
    return weights, config


def by_hand(weights, config, token):
    """Features and reconstruction of one token, feature by feature in plain Python numbers."""
    if "encoder.weight" in weights:
        weights = dict(weights, W_enc=weights["encoder.weight"].T, b_enc=weights["encoder.bias"])
        config = dict(config, architecture="topk", apply_b_dec_to_input=not config["transcode"])
    x = [float(one) for one in token]
    back = lambda y: y
    if config.get("normalize_activations") == "constant_norm_rescale":
        length = math.sqrt(sum(one * one for one in x) / len(x))
        x, back = [one / length for one in x], lambda y: [one * length for one in y]
    elif config.get("normalize_activations") == "layer_norm":
        mean = sum(x) / len(x)
        spread = math.sqrt(sum((one - mean) ** 2 for one in x) / (len(x) - 1))
        x, back = [(one - mean) / (spread + 1e-5) for one in x], lambda y: [one * spread + mean for one in y]
    bias = weights["b_dec"].tolist()
    read = [a - b for a, b in zip(x, bias, strict=True)] if config["apply_b_dec_to_input"] else x
    columns = weights["W_enc"].T.tolist()
    dots = [sum(a * b for a, b in zip(read, column, strict=True)) for column in columns]
    features = _activated(weights, config, dots)
    decoder = weights["W_dec"].tolist()
    scales = [1.0] * len(features)
    if config.get("rescale_acts_by_decoder_norm"):
        scales = [1 / math.sqrt(sum(one * one for one in row)) for row in decoder]
    made = [
        bias[at] + sum(f * s * row[at] for f, s, row in zip(features, scales, decoder, strict=True))
        for at in range(len(bias))
    ]
    made = made if "W_skip" in weights or "d_out" in config else back(made)
    if "W_skip" in weights:
        made = [
            one + sum(a * float(b) for a, b in zip(row, token, strict=True))
            for one, row in zip(made, weights["W_skip"].tolist(), strict=True)
        ]
    return torch.tensor(features), torch.tensor(made)


def _activated(weights, config, dots):
    kind = config["architecture"]
    if kind == "gated":
        parts = zip(dots, *(weights[name].tolist() for name in ("b_gate", "b_mag", "r_mag")), strict=True)
        return [max(0.0, dot * math.exp(r) + mag) if dot + gate > 0 else 0.0 for dot, gate, mag, r in parts]
    before = [dot + bias for dot, bias in zip(dots, weights["b_enc"].tolist(), strict=True)]
    if config.get("activation") == "groupmax":
        size = len(before) // config["k"]
        tops = [max(range(g * size, g * size + size), key=before.__getitem__) for g in range(config["k"])]
        return [max(0.0, one) if at in tops else 0.0 for at, one in enumerate(before)]
    if kind == "topk":
        if config.get("rescale_acts_by_decoder_norm"):
            before = [one * float(row.norm()) for one, row in zip(before, weights["W_dec"], strict=True)]
        tops = sorted(range(len(before)), key=before.__getitem__)[-config["k"] :]
        return [max(0.0, one) if at in tops else 0.0 for at, one in enumerate(before)]
    if "jumprelu" in kind:
        return [
            one if one > limit and one > 0 else 0.0
            for one, limit in zip(before, weights["threshold"].tolist(), strict=True)
        ]
    return [max(0.0, one) for one in before]
