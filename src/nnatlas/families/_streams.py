"""What families with several parallel residual streams share: hyper-connections (Zhu et al. 2024, arXiv:2409.19606).

Before each sublayer the streams are weighed into one vector, which the sublayer reads; what it writes goes into every
stream with a weight of its own.  All weights depend on the token.
"""

from __future__ import annotations

from typing import Any

from nnatlas.families._shapes import absent

_STREAMS = "batch seq streams hidden_size"
_COLLAPSED = "the norm reads a sum of the streams, weighed anew for every token"

HYPER: dict[str, Any] = dict(
    identity=absent("every stream takes its own share of what attention and MLP write, token by token"),
    layer_input=f"block > in as {_STREAMS}",
    layer_mid=f"block.ffn_hc > in as {_STREAMS} shared",
    layer_output=f"block > out as {_STREAMS}",
    readout="base.hc_head | norm | lm_head",
    passes="block.attn_hc block.ffn_hc base.hc_head",
)
"""Several streams beside each other; `attn_hc` and `ffn_hc` weigh them, `hc_head` makes one of them before the final norm."""

HYPER_BREAKS = {
    "chain attention_norm_output": _COLLAPSED,
    "chain mlp_norm_output": _COLLAPSED,
}
HYPER_NOTES = {
    "layer_input": "all streams; the embedding is copied into each",
    "layer_mid": "all streams",
    "layer_output": "all streams",
    "attention_norm_output": "of a sum of the streams, weighed anew for every token",
    "mlp_norm_output": "of a sum of the streams, weighed anew for every token",
    "attention_output": "before it is weighed for each stream",
    "mlp_output": "before it is weighed for each stream",
}
