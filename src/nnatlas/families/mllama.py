"""Llama 3.2 Vision: a Llama with blocks among its own that attend to the image, and are skipped where there is none."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, absent, kind

_GATED = "the block weighs what this sublayer writes by tanh of a learned gate"
_SKIPPED = "on text alone the blocks that attend to the image are skipped"

FAMILY = LLAMA.but(
    covers="mllama mllama_text_model",
    passes="block.cross_attn_attn_gate block.cross_attn_mlp_gate",
    kinds=(
        kind(
            "cross-attention",
            "has cross_attn",
            **NO_ROTARY,
            identity=absent("what each sublayer writes is weighed by a learned gate, rows without an image are left out"),
            self_attn="cross_attn",
            attention_output=absent(_GATED),
            attention_head_contributions=absent(_GATED),
            mlp_output=absent(_GATED),
        ),
    ),
    notes={"layer_output": "on text alone blocks with cross-attention are skipped, and have no values at all"},
    breaks={"shape": _SKIPPED, "batch": _SKIPPED},
)
