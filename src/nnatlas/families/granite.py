"""Granite: Llama's block with four constants: on the embedding, on what each sublayer adds, on the scores and on the logits."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    attention_output="self_attn > out * residual_multiplier",
    mlp_output="mlp > out * residual_multiplier",
    readout="norm | lm_head | / logits_scaling",
)
