"""Llama 3.2 Vision: a Llama with blocks among its own that attend to the image, and are skipped where there is none."""

from nnatlas.families._shapes import LLAMA, absent, kind

_CROSS = "this block attends to the image, not to the text, and is skipped where there is none"

FAMILY = LLAMA.but(
    covers="mllama mllama_text_model",
    passes="block.cross_attn block.cross_attn_attn_gate block.cross_attn_mlp_gate",
    kinds=(
        kind(
            "cross-attention",
            "has cross_attn",
            identity=absent(
                "what each sublayer writes is weighed by a learned gate, and rows without an image are left out"
            ),
            self_attn=absent(_CROSS),
            mlp_output=absent("what the MLP writes is weighed by tanh of a learned gate"),
        ),
    ),
)
