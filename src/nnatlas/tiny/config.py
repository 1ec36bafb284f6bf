"""A small config for any model type: the type's own default, shrunk field by field.

    tiny_config("mistral")      # 4 blocks, hidden size 64, 4 heads of width 24 over 2 key-value heads, windows of 8

Starting from the default keeps whatever makes the type what it is.  Sizes shrink, every kind of block stays, and every
factor, cap and offset gets a value that is not neutral, so that code which forgets one computes something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from transformers import CONFIG_MAPPING, PretrainedConfig

from nnatlas.errors import InputError

from . import fields
from .blocks import keep_blocks, put_overrides, take_overrides
from .overrides import apply_overrides, configs_in
from .rotary import fit_rotary

TOWER_BLOCKS = 2
PATCHES = 4  # on each side of an image
PAD, BEGIN, END = 256, 257, 258  # right after the bytes
ROLES = {"pad_token_id": PAD, "bos_token_id": BEGIN, "decoder_start_token_id": BEGIN, "eos_token_id": END}


def tiny_config(model_type: str, overrides: Mapping[str, object] | None = None, *, layers: int = 4) -> PretrainedConfig:
    """A config of `model_type` for a model of a few hundred thousand parameters.

    `layers` blocks are kept, more where the type has more kinds of block than that.  `overrides` maps dotted paths to
    plain values (see `overrides.py`) and has the last word.  An unknown type is an InputError with the nearest names.

    >>> config = tiny_config("llama", {"rms_norm_eps": 1e-5}, layers=2)
    >>> config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, config.head_dim
    (2, 4, 2, 24)
    """
    if model_type not in CONFIG_MAPPING:
        near = " or ".join(get_close_matches(model_type, list(CONFIG_MAPPING), 3))
        hint = f"; did you mean {near}?" if near else ""
        raise InputError(f"transformers has no model type {model_type!r}{hint}")
    config = CONFIG_MAPPING[model_type]()
    text = config.get_text_config(decoder=True)
    for part in configs_in(config):
        _shrink(part, layers if part is text else TOWER_BLOCKS, tower=part is not text)
    _number_special_tokens(config)
    apply_overrides(config, overrides or {})
    return config


def _shrink(config: PretrainedConfig, count: int, *, tower: bool) -> None:
    """Make a config small in place: fewer blocks, narrow widths, the same structure.

    Lists that say something of every block are cut to the blocks kept, and widths that must divide each other still do.
    """
    large = dict(vars(config))
    own = take_overrides(config)
    kept = keep_blocks(config, count, fields.TOWER_BLOCK_COUNTS if tower else fields.BLOCK_COUNTS)
    for name, value in list(vars(config).items()):
        small = fields.small(name, value, fields.TOWER_EXACTLY if tower else fields.EXACTLY)
        if small is not value and not name.startswith("_"):
            setattr(config, name, small)
    _fit_latent_heads(config)
    _fit_image(config)
    fit_rotary(getattr(config, "rope_parameters", None), _rotary_width(config))
    put_overrides(config, own, large, kept)


def _fit_latent_heads(config: PretrainedConfig) -> None:
    """With keys and values decompressed from one latent, every head has its own and `head_dim` is the rotary part."""
    if getattr(config, "kv_lora_rank", None):
        fitted = {"num_key_value_heads": config.num_attention_heads, "head_dim": config.qk_rope_head_dim}
        for name in fitted.keys() & vars(config).keys():
            setattr(config, name, fitted[name])


def _fit_image(config: PretrainedConfig) -> None:
    patch, image = vars(config).get("patch_size"), vars(config).get("image_size")
    if isinstance(patch, int) and isinstance(image, int):
        config.image_size = min(image, PATCHES * patch)
    elif isinstance(patch, list | tuple) and isinstance(image, list | tuple):
        config.image_size = type(image)(PATCHES * side for side in patch)


def _rotary_width(config: PretrainedConfig) -> int:
    return getattr(config, "head_dim", None) or fields.HIDDEN // fields.HEADS


def _number_special_tokens(config: PretrainedConfig) -> None:
    """Move every special id into the small vocabulary; ids that were equal stay equal, whichever config names them."""
    numbers: dict[int, int] = {}

    def number(name: str, old: int) -> int:
        return ROLES.get(name) or numbers.setdefault(old, END + 1 + len(numbers))

    for part in configs_in(config):
        for name, value in list(vars(part).items()):
            if not fields.named(name, fields.SPECIAL_IDS):
                continue
            if isinstance(value, list | tuple):
                setattr(part, name, type(value)(dict.fromkeys(number(name, old) for old in value)))
            elif type(value) is int:
                setattr(part, name, number(name, value))
