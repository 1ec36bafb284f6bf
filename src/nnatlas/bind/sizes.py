"""Sizes of a model and of each host, read from the built modules: a config may state one number where blocks differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from nnatlas.bind.paths import lookup

MODEL_SIZES = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "qk_head_dim",
    "vocab_size",
    "intermediate_size",
)
ATTENTION_SIZES = ("num_heads", "num_kv_heads", "qk_head_dim", "head_dim")
MLP_SIZES = ("intermediate_size", "num_experts", "top_k")

# What a size is called on attention and mixture modules, the most telling name first.
_HEAD_WIDTH = ("v_head_dim", "head_dim", "head_size", "attention_head_size")
_QK_WIDTH = ("qk_head_dim", "q_head_dim", "head_dim", "head_size", "attention_head_size")
_KV_HEADS = ("num_kv_heads", "num_key_value_heads")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
_TOP_K = ("top_k", "num_experts_per_tok", "top_k_experts", "moe_top_k")

# What the sizes of a recurrent mixer are called, by axis, the most telling name first.
_MIXER = {
    "num_heads": ("num_v_heads", "n_mamba_heads", "num_heads", "num_attention_heads"),
    "num_key_heads": ("num_k_heads", "n_groups", "num_heads", "num_attention_heads"),
    "key_head_dim": ("head_k_dim", "head_dim"),
    "value_head_dim": ("head_v_dim", "mamba_head_dim", "head_dim"),
    "state_size": ("ssm_state_size",),
    "channels": ("intermediate_size", "lru_width", "attention_hidden_size", "hidden_size"),
    "conv_channels": ("conv_dim", "intermediate_size", "lru_width", "hidden_size"),
    "conv_width": ("conv_kernel_size", "conv1d_width"),
    "time_step_rank": ("time_step_rank",),
}


def setting(config: Any, *names: str) -> Any:
    """The first of these config fields that is there; a per-block field that has no one value counts as not there."""
    for name in names:
        try:
            value = getattr(config, name, None)
        except Exception:  # noqa: BLE001  some configs raise their own error for a field that differs by block
            value = None
        if value is not None:
            return value
    return None


def _number(module: nn.Module | None, config: Any, *names: str) -> int | None:
    """The first whole number under one of these names, on the module before the config: blocks may differ."""
    for source in (module, config):
        found = setting(source, *names) if source is not None else None
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def width_in(projection: nn.Module | None) -> int | None:
    """The width a projection takes: `in_features`, or the first axis of a transposed weight."""
    return lookup(projection, "in_features") or _axis(projection, 0)


def width_out(projection: nn.Module | None) -> int | None:
    """The width a projection gives: `out_features`, or the second axis of a transposed weight (`nf`)."""
    return lookup(projection, "out_features") or lookup(projection, "nf") or _axis(projection, 1)


def _axis(projection: nn.Module | None, axis: int) -> int | None:
    """One axis of a weight kept as `[in, out]`, the other way round than torch's `Linear`."""
    weight = lookup(projection, "weight")
    return weight.shape[axis] if getattr(weight, "ndim", 0) == 2 else None


def attention_sizes(module: nn.Module, roles: Mapping[str, Any], config: Any) -> dict[str, int]:
    """Head counts and widths of one attention: from its own attributes, else its projections, else the config.

    `head_dim` is the width of a value head, `qk_head_dim` that of a query or key head; latent attention has the two differ.
    What the output projection takes, `num_heads * head_dim` wide, is trusted over a stated number of heads: blocks may
    differ, and one number in the config does not say so.
    """
    hidden, heads = setting(config, "hidden_size"), setting(module, *_HEADS) or setting(config, "num_attention_heads")
    even = hidden // heads if isinstance(hidden, int) and isinstance(heads, int) else None
    head_dim = _number(module, config, *_HEAD_WIDTH) or even
    qk = _number(module, config, *_QK_WIDTH) or head_dim
    if head_dim is None or qk is None:
        return {}
    wide = width_in(roles.get("o_proj"))
    heads = wide // head_dim if wide and wide % head_dim == 0 else heads
    return {"num_heads": heads, "num_kv_heads": _kv_heads(module, roles, config, heads, qk)} | {
        "qk_head_dim": qk,
        "head_dim": head_dim,
    }


def _kv_heads(module: nn.Module, roles: Mapping[str, Any], config: Any, heads: int, qk: int) -> int:
    """Key heads: what the key projection gives, else what the module states or how many query heads share one, else the config."""
    wide = width_out(roles.get("k_proj"))
    if wide and wide % qk == 0:
        return wide // qk
    stated = setting(module, *_KV_HEADS)
    if isinstance(stated, int):
        return stated
    groups = setting(module, "num_key_value_groups")
    return heads // groups if isinstance(groups, int) else _number(None, config, *_KV_HEADS) or heads


def mixer_sizes(module: nn.Module, config: Any) -> dict[str, int]:
    """Heads, widths and channels of a recurrent mixer, from its own attributes, else the config."""
    found = {axis: _number(module, config, *names) for axis, names in _MIXER.items()}
    return {axis: size for axis, size in found.items() if size is not None}


def mlp_sizes(module: nn.Module, roles: Mapping[str, Any], config: Any) -> dict[str, int]:
    """Neurons of one MLP; for a mixture, of one expert, with the number of experts and how many a token goes to."""
    experts, router = roles.get("experts"), roles.get("router")
    wide = width_in(roles.get("down_proj"))
    if experts is not None:
        wide = _number(experts, config, "intermediate_dim", "intermediate_size", "moe_intermediate_size", "expert_dim")
    counts = {
        "intermediate_size": wide or _number(None, config, "intermediate_size", "ffn_dim", "n_inner"),
        "num_experts": experts and (_number(experts, None, *_EXPERTS) or _number(router, config, *_EXPERTS)),
        "top_k": experts and (_number(router, None, *_TOP_K) or _number(module, config, *_TOP_K)),
    }
    return {name: size for name, size in counts.items() if isinstance(size, int)}
