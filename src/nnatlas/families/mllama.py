"""Llama 3.2 Vision: a Llama with blocks among its own that attend to the image, and are skipped where there is none."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, kind

_IMAGE = "blocks with cross-attention attend to the image, of which every position may see all"

FAMILY = LLAMA.but(
    covers="mllama mllama_text_model",
    passes="block.cross_attn_attn_gate block.cross_attn_mlp_gate",
    kinds=(
        kind(
            "cross-attention",
            "has cross_attn",
            **NO_ROTARY,
            identity="layer_input + attention_output + mlp_output = layer_output",
            self_attn="cross_attn",
            attention_keys="attention > key as batch num_kv_heads image_positions qk_head_dim",
            attention_values="attention > value as batch num_kv_heads image_positions head_dim",
            attention_scores="attention > scores as batch num_heads query image_positions",
            attention_probabilities="attention > probabilities as batch num_heads query image_positions",
            attention_output="self_attn > out[0] * tanh(block.cross_attn_attn_gate)",
            mlp_output="beyond(mlp_norm > in, block > out)",
        ),
    ),
    notes={
        "layer_output": "on text alone blocks with cross-attention are skipped, and have no values at all",
        "mlp_output": "in blocks with cross-attention weighed by a learned gate, and nothing at tokens that see no image",
    },
    breaks={
        "chain attention_probabilities": _IMAGE,
        "batch cached": "generation with the text model alone appends the image's states once more at every step",
        "chain mlp.mlp_output": "in blocks with cross-attention a learned gate weighs it",
    },
)
