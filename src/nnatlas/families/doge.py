"""Doge: each sum weighs the stream by a learned vector, and the mask grows by a learned function of the values."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    identity=(
        "layer_input * block.input_residual * block.post_attention_residual"
        " + attention_output * block.post_attention_residual + mlp_output = layer_output"
    ),
    passes="block.input_residual block.post_attention_residual",
    breaks={
        "chain attention_scores": "the mask holds a learned function of the values",
        "chain block.layer_mid": "a learned vector, input_residual, weighs the stream before the attention is added",
    },
)
